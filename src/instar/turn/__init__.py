"""One turn: from a prompt until the session is idle.

May import `session` and what stands before it. Begin with `loop.py`, then `step.py` (one model call), `calls.py` (its
tool calls), `context.py` (what is sent), `prompt.py` (how a prompt comes in). `turns.py` admits, starts and aborts
turns; `model_call.py` asks the limits before each call and books it; `compaction.py` says when a history is too long,
`summary.py` writes what stands in its place.
"""
