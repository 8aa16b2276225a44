"""Settings: the configuration files, permission rules, which folders are trusted, and where instar keeps things.

May import `wire`, `message`, `process` and `git`. Begin with `load.py`, which reads the files into one `Config`.
`untrusted.py` and `guarding.py` say what a project's files may change, `trust.py` whose code may run.
"""
