"""Turns recorded from the real opencode; ``make real RECORD=1`` writes ``tests/data/trace/*.json`` anew."""

import json
import os
import select
from collections import Counter

from tests.difference import word
from tests.story import DATA, PASSWORD, STORIES, Model, Play, Scrub

PACE, REST = 0.4, 1.5
"""Seconds before each answer of the model, and without an event: what is published beside a turn has come then."""


def test_the_recorded_turns_are_what_the_program_says_today(opencode):
    model = Model(PACE)
    theirs = opencode("theirs")
    theirs.configure(model.settings())
    theirs.environment["OPENCODE_SERVER_PASSWORD"] = PASSWORD
    child = theirs.start("serve", "--port", "0", "--hostname", "127.0.0.1")
    try:
        said = played(theirs, child, model)
    finally:
        child.kill()
        child.communicate()
        model.close()
    if os.environ.get("INSTAR_RECORD"):
        for name, trace in said.items():
            text = json.dumps(trace, indent=1, ensure_ascii=False)
            (DATA / f"{name}.json").write_text(text + "\n")
    for name, trace in said.items():
        recorded = json.loads((DATA / f"{name}.json").read_text())
        assert words(trace) == words(recorded), name
        assert trace["requests"] == recorded["requests"], name


def words(trace):
    """What was said, in no order: opencode publishes from several places at once. Output comes in pieces."""
    return Counter(word(event) for event in trace["events"] if "running" not in word(event))


def played(theirs, child, model):
    line = ""
    while "listening on" not in line:
        assert select.select([child.stdout], [], [], 60)[0], "no address was announced"
        line = child.stdout.readline().decode()
    url = line.rpartition(" ")[2].strip()
    said = {}
    for story in STORIES:
        scrub = Scrub({str(theirs.project): "/project", model.url: "<model>"})
        said[story.name] = scrub.trace(Play(url, model, story, REST).run())
        (theirs.project / "new.txt").unlink(missing_ok=True)
    return said
