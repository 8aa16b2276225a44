"""The heartbeat: a prompt on a timer, in a session of its own.

`schedule` decides when, `book` keeps it, `owner` lets one process beat, `scheduler` drives them; `cleanup` decides what
becomes of the session, `words` what it is sent, `memory` which model it had last.
"""
