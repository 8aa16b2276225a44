"""A schema's regular expressions: what is looked for, and what could take too long to be."""

import time

import pytest

from instar.tool.call import validate

USUAL = [
    (r"^[a-z0-9]+(?:-[a-z0-9]+)*$", "one-two-3" * 40, "one--two"),
    (r"^\d+(\.\d+)?$", "12.5", "12."),
    (r"^[^@\s]+@[^@\s]+\.[^@\s]+$", "a@b.example", "a@b"),
    (r"^[0-9a-f]{64}$", "0" * 64, "0" * 65),
    (r"^(?:/\w+)+$", "/a/b/c", "/a//c"),
    (r"^(added|deleted)$", "added", "moved"),
    (r"[(|*]", "a|b", "a+b"),
]


@pytest.mark.parametrize(("pattern", "good", "bad"), USUAL)
def test_a_usual_pattern_is_checked(pattern: str, good: str, bad: str) -> None:
    schema = {"type": "string", "pattern": pattern}
    assert validate(good, schema) is None
    assert validate(bad, schema) is not None


HOSTILE = [
    r"^(a+)+$",
    r"^(a|a)*$",
    r"^(?:a?){40}a{40}$",
    r"^(a+)(?#x)+$",
    r"(?x)^(a+) +$",
    r"^(.a*)*$",
    r"^(?:-[a-]*)*$",
    r"^(?:=[a=]*)*$",
    r"^a*a*a*a*a*$",
    r"^((?:a+))+$",
    r"^(?P<n>a+){2,}$",
]


@pytest.mark.parametrize("pattern", HOSTILE)
def test_a_hostile_pattern_costs_little(pattern: str) -> None:
    text = ("-" if "-" in pattern else "a") * 5_000 + "!"
    begun = time.process_time()
    schema = {"properties": {"a": {"pattern": pattern}}, "patternProperties": {pattern: {}}}
    validate({"a": text, text: 1}, {**schema, "additionalProperties": False})
    draft = "https://json-schema.org/draft/2020-12/schema"
    validate({"a": text}, {"allOf": [{**schema, "$schema": draft}]})
    assert time.process_time() - begun < 1
