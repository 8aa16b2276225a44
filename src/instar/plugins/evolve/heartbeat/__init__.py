"""The heartbeat: a prompt on a timer, in a session of its own.

`schedule` decides when, `book` keeps it, `owner` lets one process beat, `scheduler` drives them; `heart` runs a beat,
`session` knows which session it is and what that is sent, `memory` which model it had last.
"""
