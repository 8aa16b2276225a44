"""Checks of a release: `check.py` builds and installs it, `wheels.py` asks for wheels, `extras.py` weighs the extras.

Each prints a table. `--record` puts its rows into `platforms.md` of the docs, which holds only what was run.
"""
