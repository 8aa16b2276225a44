"""``instar chat``: a conversation at a terminal.

What is finished goes to the terminal's own scrollback; only some rows at the bottom live. It uses the client's
operations alone, so that every other program can do what it does. Begin with `command.py`; `screen.py` has the rows and
the keys, `conversation.py` the session, `orders.py` what a line that begins with a slash does.
"""
