import json


def test_the_scripted_models_are_always_there(machine):
    done = machine.instar("models")
    assert "scripted/echo" in done.stdout
    assert done.stderr.startswith("instar: no provider has a key (--all ")


def test_a_filter_narrows_the_list_and_shows_what_lacks_a_key(machine):
    done = machine.instar("models", "openai/")
    assert done.returncode == 0
    assert "OPENAI_API_KEY" in done.stdout
    assert "scripted" not in done.stdout


def test_a_key_that_is_set_is_said_and_never_printed(machine):
    machine.environment["OPENAI_API_KEY"] = "sk-very-secret"
    for arguments in (["models"], ["models", "--json"]):
        shown = machine.instar(*arguments).stdout
        assert "openai/" in shown
        assert "very-secret" not in shown


def test_a_filter_that_matches_nothing_says_so(machine):
    done = machine.instar("models", "no-such-model")
    assert done.returncode == 1
    assert "no-such-model" in done.stderr


def test_json_gives_window_price_and_key(machine):
    machine.write(
        "opencode.json",
        json.dumps(
            {
                "provider": {
                    "mine": {
                        "options": {"baseURL": "http://127.0.0.1:9/v1", "apiKey": "k"},
                        "models": {
                            "m": {"limit": {"context": 1000, "output": 10}, "cost": {"input": 1, "output": 2}}
                        },
                    }
                }
            }
        ),
    )
    (model,) = json.loads(machine.instar("models", "mine/", "--json").stdout)
    assert (model["id"], model["limit"]["context"], model["cost"]["output"], model["key"]) == (
        "mine/m",
        1000,
        2,
        True,
    )
