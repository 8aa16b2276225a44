"""The shield and the sandbox: how a child is started that must not reach everything its person can.

A `Shield` leaves everything as the person has it, but for what is guarded; a `Sandbox` shows a copy of a
workspace, or the workspace read-only, and nothing else. Both are `Confinement`s for `Processes.run`. `find_level` says
what this machine can do.

May import `settings` and what stands before it. Begin with `shield.py` and `box.py`; `model_process.py` starts children
for the model.
"""
