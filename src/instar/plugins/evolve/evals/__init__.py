"""Evals that are files: a prompt or a hook's input, and checks on what comes of it.

Begin with `case.py`, the form of a file; `run.py` runs one, `check.py` looks at what it answered, `cases.py` is what
the gate measures with, `table.py` what a person is shown, and `starter.py` makes a first set.
"""
