"""`instar auth`: keys that a person keeps, and that no command prints."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

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
        "$XAI_API_KEY is set and takes precedence"
        in machine.instar("auth", "login", "xai", stdin=KEY.encode()).stdout
    )


def test_without_a_key_the_list_says_so_and_how_to_keep_one(machine):
    done = machine.instar("auth", "list")
    assert (done.returncode, done.stdout) == (0, "")
    assert "no provider has a key" in done.stderr
    assert "instar auth login openai" in done.stderr
    assert json.loads(machine.instar("auth", "list", "--json").stdout) == []
    machine.environment["XAI_API_KEY"] = KEY
    found = json.loads(machine.instar("auth", "list", "--json").stdout)
    assert found == [{"provider": "xai", "key": "$XAI_API_KEY"}]


def test_a_key_of_a_provider_that_nothing_describes_is_kept_and_said(machine):
    done = machine.instar("auth", "login", "opnai", stdin=KEY.encode())
    assert done.returncode == 0
    assert "no provider is called opnai yet (did you mean openai?)" in done.stderr
    assert "instar auth logout opnai" in done.stderr
    machine.write_home(
        "instar.json", '{"provider": {"mine": {"options": {"baseURL": "http://127.0.0.1:9/v1"}}}}'
    )
    assert machine.instar("auth", "login", "mine", stdin=KEY.encode()).stderr == ""


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


@pytest.mark.slow
def test_on_a_terminal_the_key_is_asked_for_and_not_shown(machine, screen):
    shown = screen("auth", "login", "openai")
    shown.wait_for("API key")
    shown.type(f"{KEY}\n")
    assert shown.end() == 0
    assert KEY not in shown.text
    assert json.loads(kept(machine).read_text())["openai"]["key"] == KEY


PLUGIN = """
async def acme(input, options):
    async def by_browser(inputs):
        async def callback():
            return {"type": "success", "access": "at-1", "refresh": "rt-1", "expires": 1, "accountId": inputs["team"]}

        return {"url": "https://acme.example/login", "instructions": "Wait.", "method": "auto", "callback": callback}

    async def by_code(inputs):
        async def callback(code):
            return {"type": "success", "key": f"sk-{code}"} if code == "1234" else {"type": "failed"}

        return {"url": "https://acme.example/code", "instructions": "", "method": "code", "callback": callback}

    async def broken(inputs):
        raise RuntimeError("the server is away")

    team = {"type": "select", "key": "team", "message": "Team", "options": [{"label": "A", "value": "a"}]}
    return {"auth": {"provider": "acme", "methods": [
        {"type": "oauth", "label": "Browser", "prompts": [team], "authorize": by_browser},
        {"type": "oauth", "label": "Code", "authorize": by_code},
        {"type": "api", "label": "Key"},
        {"type": "api", "label": "Broken", "authorize": broken},
    ]}}
"""


@pytest.fixture
def acme(machine):
    machine.write_home("plugins/acme.py", PLUGIN)
    return machine


@pytest.mark.parametrize(
    ("method", "typed", "entry"),
    [
        (
            "Browser",
            "a\n",
            {"type": "oauth", "access": "at-1", "refresh": "rt-1", "expires": 1, "accountId": "a"},
        ),
        ("Code", "1234\n", {"type": "api", "key": "sk-1234"}),
        ("Key", "sk-own\n", {"type": "api", "key": "sk-own"}),
    ],
)
def test_a_plugins_method_logs_in(acme, method, typed, entry):
    done = acme.instar("auth", "login", "acme", "--method", method, stdin=typed.encode())
    assert done.returncode == 0, done.stderr
    assert json.loads(kept(acme).read_text()) == {"acme": entry}
    assert acme.instar("auth", "list").stdout == f"acme  {kept(acme)}\n"
    assert not {"at-1", "rt-1", "sk-1234", "sk-own"} & set(done.stdout.split())


@pytest.mark.parametrize(
    ("arguments", "typed", "code", "said"),
    [
        (("acme",), "", 2, "give --method one of: Browser, Code, Key, Broken"),
        (("acme", "--method", "Fax"), "", 2, "there is no method 'Fax' to log in"),
        (("acme", "--method", "Browser"), "b\n", 2, "Team: expected one of a; nothing was kept"),
        (("acme", "--method", "Code"), "9\n", 1, "the login to acme failed; nothing was kept"),
        (("acme", "--method", "Broken"), "", 1, "the plugin could not log in to acme: the server is away"),
        (("openai", "--method", "Code"), "", 2, "no plugin offers a method to log in to openai"),
    ],
)
def test_a_login_that_fails_says_why_and_keeps_nothing(acme, arguments, typed, code, said):
    done = acme.instar("auth", "login", *arguments, stdin=typed.encode())
    assert (done.returncode, said in done.stderr, done.stderr.count("\n")) == (code, True, 1), done.stderr
    assert not list(acme.home.rglob("auth.json"))


def test_a_provider_that_no_plugin_speaks_of_takes_a_key_as_ever(acme):
    assert acme.instar("auth", "login", "openai", stdin=KEY.encode()).returncode == 0
    assert json.loads(kept(acme).read_text())["openai"]["key"] == KEY


@pytest.mark.slow
def test_on_a_terminal_a_person_picks_the_method(acme, screen):
    shown = screen("auth", "login", "acme")
    shown.wait_for("Method")
    shown.type("2\n")
    shown.wait_for("Code:")
    shown.type("1234\n")
    assert shown.end() == 0
    assert "https://acme.example/code" in shown.text
    assert json.loads(kept(acme).read_text())["acme"]["key"] == "sk-1234"


def test_settings_with_a_mistake_do_not_keep_a_person_from_logging_in(machine):
    machine.write_home("instar.json", '{"plugin": 5}')
    done = machine.instar("auth", "login", "openai", stdin=KEY.encode())
    assert done.returncode == 0
    assert done.stderr.startswith("instar: no plugin is asked how to log in: ")


@pytest.mark.parametrize(
    ("model", "variable"),
    [("openai/gpt-5", "OPENAI_API_KEY"), ("anthropic/claude-sonnet-4-6", "ANTHROPIC_API_KEY")],
)
def test_nothing_is_sent_to_a_vendor_without_a_key(machine, model, variable):
    provider = model.partition("/")[0]
    done = machine.instar("run", "-m", model, "hello")
    assert (done.returncode, done.stdout) == (1, "")
    assert f"{provider} has no key: instar auth login {provider}, or set {variable}" in done.stderr
    assert "trying again" not in done.stderr


class Refusal(BaseHTTPRequestHandler):
    """A provider that takes no key."""

    def do_POST(self):
        self.send_response(401)
        self.end_headers()
        self.wfile.write(b'{"error": {"message": "Incorrect API key provided"}}')

    def log_message(self, *arguments):
        pass


@pytest.fixture
def refusing():
    with ThreadingHTTPServer(("127.0.0.1", 0), Refusal) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        server.shutdown()


@pytest.mark.parametrize(
    ("options", "variable", "place"),
    [
        ({"apiKey": KEY}, {}, "provider.mine.options.apiKey"),
        ({}, {"MINE_KEY": KEY}, "$MINE_KEY"),
        ({}, {}, "instar auth login mine"),
    ],
)
def test_a_key_that_is_refused_is_said_with_the_place_where_it_stands(
    machine, refusing, options, variable, place
):
    block = {"env": ["MINE_KEY"], "options": {"baseURL": refusing, **options}, "models": {"m": {}}}
    machine.write_home("instar.json", json.dumps({"provider": {"mine": block}}))
    machine.environment |= variable
    if not options and not variable:
        machine.instar("auth", "login", "mine", stdin=KEY.encode())
    done = machine.instar("run", "-m", "mine/m", "hello")
    assert done.returncode == 1
    assert f"answered 401: Incorrect API key provided - check the provider's key ({place})" in done.stderr
    assert KEY not in done.stderr
