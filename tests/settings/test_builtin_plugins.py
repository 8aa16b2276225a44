"""Which flagships are wanted, and what they add to the command line."""

import pytest

from instar.settings import builtin_plugins


@pytest.mark.parametrize(
    ("listed", "environment", "flags", "wanted"),
    [
        ([], {}, {}, False),
        (["evolve"], {}, {}, True),
        (["opencode-evolve@1.2"], {}, {}, True),
        (["/somewhere/evolve.py"], {}, {}, False),
        ([], {"INSTAR_WORKSPACE": "ws"}, {}, True),
        ([], {"INSTAR_WORKSPACE": ""}, {}, False),
        ([], {}, {"workspace": "ws"}, True),
        ([], {}, {"workspace": None, "safe": True}, False),
    ],
)
def test_what_works_unasked_is_wanted_by_settings_environment_or_flag(listed, environment, flags, wanted):
    assert builtin_plugins.stands_by(listed, environment, flags) is wanted


def test_each_command_of_a_flagship_has_a_place_and_a_line_in_the_help():
    found = builtin_plugins.commands()
    assert {"evolve", "heartbeat"} <= set(found)
    assert all(":" in place and line.endswith(".") for place, line in found.values())
