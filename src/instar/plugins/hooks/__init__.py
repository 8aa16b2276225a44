"""hooks: rules in files decide, before and after things happen, whether they may.

docs/reference/hooks.md describes the rules; the formats are those of Claude Code's and OpenHands' hooks. It imports
nothing of instar but `instar.plugin`, and is loaded when settings or a file name rules. `server.py` subscribes to
the hook points,
`runner.py` runs the rules that match an event: begin there. `rule.py` has the tables: events, and the keys of a rule.
`sources.py` and `parse.py` read rules, `match.py` selects them, `payload.py` makes their input, `external.py` and
`judge.py` run them and read their answers, `outcome.py` combines the outcomes.
"""
