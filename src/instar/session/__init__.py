"""Sessions: their history and state in memory, and what can be done with one: fork, revert, import, export, sub-agents.

May import `approval`, `limits`, `definitions` and what stands before them; never `turn`. Begin with `sessions.py`, then
`state.py`. `instance.py` is the value in which all of this is handed to a turn.
"""
