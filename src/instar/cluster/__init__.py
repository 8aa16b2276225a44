"""Turns on many workers: servers on one PostgreSQL database, of which any takes up a prompt that waits.

May import every room but the doors. Begin with `sharing.py`; `engine.py` says what hands out the turns.
"""
