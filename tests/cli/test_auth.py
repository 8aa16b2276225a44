"""`instar auth`: keys that a person keeps, and that no command prints."""

import json

import pytest

KEY = "sk-live-0123456789abcdef"


def kept(machine):
    (found,) = machine.home.rglob("auth.json")
    return found


def test_a_key_is_kept_listed_used_and_forgotten(machine):
    done = machine.instar("auth", "login", "openai", stdin=f"{KEY}\n".encode())
    assert done.returncode == 0, done.stderr
    assert kept(machine).stat().st_mode & 0o777 == 0o600
    assert json.loads(kept(machine).read_text())["openai"]["key"] == KEY
    listed = machine.instar("auth", "list")
    assert listed.stdout.startswith("openai  ")
    models = machine.instar("models", "--json")
    assert any(model["id"] == "openai/gpt-5" and model["key"] for model in json.loads(models.stdout))
    gone = machine.instar("auth", "logout", "openai")
    assert "openai" not in machine.instar("auth", "list").stdout
    assert KEY not in "".join(f"{run.stdout}{run.stderr}" for run in (done, listed, models, gone))


def test_a_key_in_the_environment_is_listed_by_its_variables_name(machine):
    machine.environment["XAI_API_KEY"] = KEY
    assert machine.instar("auth", "list").stdout == "xai  $XAI_API_KEY\n"
    assert (
        "$XAI_API_KEY is set and goes before it"
        in machine.instar("auth", "login", "xai", stdin=KEY.encode()).stdout
    )


@pytest.mark.parametrize("text", ["", "  \n", "two words", "two\nlines", "\x1b[31m"])
def test_what_is_no_key_is_not_kept(machine, text):
    done = machine.instar("auth", "login", "openai", stdin=text.encode())
    assert done.returncode == 2
    assert "that is no key" in done.stderr
    assert not list(machine.home.rglob("auth.json"))


@pytest.mark.parametrize("provider", ["", "a/b", " a"])
def test_a_name_that_is_none_is_refused(machine, provider):
    done = machine.instar("auth", "login", provider, stdin=KEY.encode())
    assert done.returncode == 2
    assert "is no provider's name" in done.stderr


def test_forgetting_what_is_not_kept_is_said(machine):
    done = machine.instar("auth", "logout", "openai")
    assert done.returncode == 1
    assert "no key of 'openai' is kept" in done.stderr


def test_a_damaged_file_is_named_in_one_line_and_stays_as_it_was(machine):
    machine.instar("auth", "login", "openai", stdin=KEY.encode())
    kept(machine).write_text(f'{{"openai": {KEY}')
    done = machine.instar("auth", "login", "xai", stdin=KEY.encode())
    assert done.returncode == 2
    assert str(kept(machine)) in done.stderr
    assert done.stderr.count("\n") == 1
    assert KEY not in done.stderr
    assert kept(machine).read_text() == f'{{"openai": {KEY}'


def test_on_a_terminal_the_key_is_asked_for_and_not_shown(machine, screen):
    shown = screen("auth", "login", "openai")
    shown.wait_for("API key")
    shown.type(f"{KEY}\n")
    assert shown.end() == 0
    assert KEY not in shown.text
    assert json.loads(kept(machine).read_text())["openai"]["key"] == KEY
