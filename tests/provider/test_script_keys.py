import pytest

from instar.provider.script import Ask, Expect, Fail, Pause, Say, Section
from instar.provider.script_keys import apply


def items(*lines):
    section = Section(1)
    for number, line in enumerate(lines, 2):
        apply(section, line, f"s.txt:{number}")
    return section.items


@pytest.mark.parametrize(
    ("line", "item"),
    [
        ("text: a", Say("a")),
        ("text:", Say("")),
        ("reasoning: a", Say("a", reasoning=True)),
        ("tool: bash", Ask("bash", {})),
        ('tool: bash\n{"a": 1}', Ask("bash", {"a": 1})),
        ('raw: bash {"a": ', Ask("bash", {}, raw='{"a": ')),
        ("delay: 1.5s", Pause(1.5)),
        ("error: 503 gone", Fail("gone", line=2, status=503)),
        ("error: overflow", Fail("scripted error", line=2, kind="overflow")),
        ("error: network cut times=1", Fail("cut", line=2, kind="network", times=1)),
    ],
)
def test_each_key_is_read(line, item):
    assert items(line) == [item]


def test_arguments_as_text_are_added_to_the_call_before():
    assert items('tool: f {"a": 1}', "arg: b\n  two\nlines", "arg: c") == [
        Ask("f", {"a": 1, "b": "  two\nlines", "c": ""})
    ]


@pytest.mark.parametrize("key", ["expect", "expect_not", "expect_system", "expect_tool"])
def test_an_expectation_may_stand_in_quotes(key):
    plain, quoted = items(f"{key}: a b", f'{key}: "a b"')
    assert isinstance(plain, Expect)
    assert isinstance(quoted, Expect)
    assert plain.of == quoted.of == key
    assert plain.pattern.pattern == quoted.pattern.pattern == "a b"
