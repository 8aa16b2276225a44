"""Attacks of a hostile model, repository, page and local user: `python -m tests.campaign.siege`,
docs/reference/siege.md.

`case.py` says what a case is; one module for each attacker has its cases and plays them; `players.py` has all, and
`__main__.py` plays them.
"""
