import pytest

from instar.provider.script import CallTool, Delay, Expect, Fail, Say, ScriptError, parse

WHOLE = """
# a comment
chunk: 4

== turn
reasoning: thinking
text: Hello
  over two lines

  and a third
delay: 20ms
tool: bash {"command": "ls"}
tool: write
  {
    "filePath": "a.py"
  }
arg: content <<END
    print("# not a comment")
== not a heading

END
usage: input=3 output=4 cache_read=1
finish: length

== when "err(or)" once
text: sorry

== title
text: A title
"""


def test_a_script_is_read():
    script = parse(WHOLE, "s.txt")
    (turn,) = script.turns
    assert turn.items == [
        Say("thinking", reasoning=True),
        Say("Hello\nover two lines\n\nand a third"),
        Delay(0.02),
        CallTool("bash", {"command": "ls"}),
        CallTool(
            "write",
            {"filePath": "a.py", "content": '    print("# not a comment")\n== not a heading\n'},
        ),
    ]
    assert (turn.chunk, turn.finish, turn.usage) == (4, "length", {"input": 3, "output": 4, "cache_read": 1})
    (rule,) = script.rules
    assert rule.when is not None
    assert (rule.when.pattern, rule.once) == ("err(or)", True)
    assert script.purposes["title"][0].items == [Say("A title")]


def test_sections_do_not_share_their_items():
    script = parse("== turn\ntext: a\n== turn\ntext: b\n", "s")
    assert [turn.items for turn in script.turns] == [[Say("a")], [Say("b")]]


def test_a_section_that_only_fails_stands_before_the_next_one():
    script = parse("== turn\nerror: 429 slow down retry-after=1.5 times=2\n== turn\ntext: ok\n", "s")
    (turn,) = script.turns
    assert turn.items == [
        Fail("slow down", line=2, status=429, retry_after=1.5, times=2),
        Say("ok"),
    ]


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("== trun\ntext: x", 1, "is no heading"),
        ("== when error\ntext: x", 1, "regular expression"),
        ('== when "("\ntext: x', 1, "no regular expression"),
        ("text: x", 1, "must stand below a heading"),
        ("== turn\ntxt: x", 2, "is no line of a script; keys: text, reasoning"),
        ("== turn\nhello", 2, "is no line of a script"),
        ("== turn\n", 1, "says nothing"),
        ("== turn\n\n== turn\ntext: x", 1, "says nothing"),
        ('== turn\ntool: bash {"command": }', 2, "are not JSON"),
        ("== turn\ntool: bash [1]", 2, "must be a JSON object"),
        ("== turn\ntool:", 2, "expected a name"),
        ("== turn\ntext: a\narg: x y", 3, "must follow a `tool:`"),
        ("== turn\ntext: <<END\nnever", 2, "no line `END`"),
        ("  x", 1, "an indented line"),
        ("== turn\ntext: a\nfinish: done", 3, "no reason to finish"),
        ("== turn\ntext: a\nusage: inputs=3", 3, "is no count"),
        ("== turn\ntext: a\nchunk: 0", 3, "1 or more"),
        ("== turn\ntext: a\ndelay: 3", 3, "write 50ms or 1.5s"),
        ("== turn\nerror: later", 2, "error: STATUS"),
        ("== turn\nexpect: (", 2, "no regular expression"),
        ("== turn\nerror: 500 x\n== turn\ntext: y", 2, "never reached"),
    ],
)
def test_a_mistake_names_its_file_and_line(text, place, said):
    with pytest.raises(ScriptError) as caught:
        parse(text, "demo.txt")
    assert str(caught.value).startswith(f"demo.txt:{place}: ")
    assert said in str(caught.value)


def items(*lines):
    (turn,) = parse("\n".join(["== turn", *lines, "text: end"]), "s").turns
    return turn.items[:-1]


@pytest.mark.parametrize(
    ("line", "item"),
    [
        ("text: a", Say("a")),
        ("text:", Say("")),
        ("reasoning: a", Say("a", reasoning=True)),
        ("tool: bash", CallTool("bash", {})),
        ('tool: bash\n  {"a": 1}', CallTool("bash", {"a": 1})),
        ('raw: bash {"a": ', CallTool("bash", {}, raw='{"a":')),
        ("delay: 1.5s", Delay(1.5)),
        ("error: 503 gone", Fail("gone", line=2, status=503)),
        ("error: overflow", Fail("scripted error", line=2, kind="overflow")),
        ("error: network cut times=1", Fail("cut", line=2, kind="network", times=1)),
    ],
)
def test_each_key_is_read(line, item):
    assert items(line) == [item]


def test_arguments_as_text_are_added_to_the_call_before():
    lines = ('tool: f {"a": 1}', "arg: b <<END", "  two", "lines", "END", "arg: c")
    assert items(*lines) == [CallTool("f", {"a": 1, "b": "  two\nlines", "c": ""})]


@pytest.mark.parametrize("key", ["expect", "expect_not", "expect_system", "expect_tool"])
def test_an_expectation_may_stand_in_quotes(key):
    plain, quoted = items(f"{key}: a b", f'{key}: "a b"')
    assert isinstance(plain, Expect)
    assert isinstance(quoted, Expect)
    assert plain.key == quoted.key == key
    assert plain.pattern.pattern == quoted.pattern.pattern == "a b"
