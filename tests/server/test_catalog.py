"""What there is to choose from, over HTTP: providers, models, agents, commands, skills, tools, MCP servers, logins."""

import json
import sys
import textwrap
import time

import pytest
from tests.server.conformance import problems_of
from tests.server.machine import served_in
from tests.waiting import wait_until

MCP = """
    import json, sys

    OFFERED = {
        "tools/list": {"tools": []},
        "resources/list": {"resources": [{"uri": "toy://one", "name": "one", "mimeType": "text/plain"}, {"odd": 1}]},
        "prompts/list": {"prompts": [{"name": "greet", "description": "Greets", "arguments": [{"name": "whom"}]}]},
        "prompts/get": {"messages": [{"role": "user", "content": {"type": "text", "text": "Greet $1"}}]},
    }
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        version = request.get("params", {}).get("protocolVersion")
        started = {"protocolVersion": version, "serverInfo": {"name": "toy", "version": "1"}}
        started["capabilities"] = {"tools": {}, "resources": {}, "prompts": {}}
        result = started if request["method"] == "initialize" else OFFERED[request["method"]]
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
"""
PLUGIN = """
    async def login(input, options):
        async def authorize(inputs):
            async def callback(*code):
                if code and code[0] != "right":
                    return {"type": "failed"}
                return {"type": "success", "refresh": "sk-refresh", "access": "sk-access", "expires": 1}

            if inputs.get("where") == "nowhere":
                raise ValueError("there is no such place")
            mode = "code" if inputs.get("how") == "code" else "auto"
            return {"url": "https://login.example", "instructions": "Go there", "method": mode, "callback": callback}

        def validate(text):
            return "no such place" if text == "x" else None

        where = {"type": "text", "key": "where", "message": "Where?", "validate": validate}
        how = {"type": "select", "key": "how", "message": "How?", "options": [{"label": "Code", "value": "code"}]}
        methods = [
            {"type": "api", "label": "A key"},
            {"type": "oauth", "label": "The browser", "prompts": [where, how], "authorize": authorize},
            {"type": "oauth", "label": "Odd", "prompts": [{"message": 5}]},
        ]
        return {"auth": {"provider": "cloud", "methods": methods}}
"""
SETTINGS = {
    "model": "mine/unlisted",
    "provider": {
        "mine": {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": "http://127.0.0.1:1/v1", "apiKey": "sk-mine"},
            "models": {
                "m": {
                    "name": "M",
                    "id": "really-m",
                    "limit": {"context": 1000, "input": 900, "output": 100},
                    "cost": {"input": 1, "output": 2, "cache_read": 0.5},
                    "modalities": {"input": ["text", "image"]},
                    "headers": {"x-key": "sk-header"},
                    "interleaved": {"field": "reasoning_content"},
                    "variants": {"high": {"reasoningEffort": "high"}},
                }
            },
        },
        "open": {"options": {"baseURL": "http://127.0.0.1:1/v1"}},
    },
    "agent": {
        "looker": {"mode": "subagent", "model": "open/any", "variant": "high", "color": "#00ff00", "steps": 3}
    },
    "command": {"greet": {"template": "Greet $1", "model": "mine/m", "agent": "build", "subtask": True}},
    "mcp": {"off": {"type": "local", "command": ["true"], "enabled": False}},
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    root = tmp_path_factory.mktemp("catalog")
    project = root / "project"
    files = {
        "opencode.json": json.dumps(SETTINGS),
        ".opencode/skill/tidy/SKILL.md": "---\nname: tidy\ndescription: How to tidy\n---\nPut $1 away.\n",
        ".instar/plugins/cloud.py": textwrap.dedent(PLUGIN),
        "../toy.py": textwrap.dedent(MCP),
    }
    for name, text in files.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    with served_in(root, "== turn\ntext: done\n", OPENAI_API_KEY="sk-openai") as served:
        yield served


@pytest.fixture
def ask(server):
    """Ask, see that the answer is as the document has it, and that it holds no key; returns status and body."""

    def asked(method, template, body=None, *, query=None, **parts):
        answer = server.http.request(method, template.format(**parts), json=body, params=query)
        plain = answer.json() if answer.content else None
        assert problems_of(method, template, answer.status_code, plain) == []
        assert "sk-" not in answer.text
        return answer.status_code, plain

    return asked


@pytest.fixture
def get(ask):
    def asked(template, **parts):
        status, plain = ask("GET", template, **parts)
        assert status == 200
        return plain

    return asked


ALL = [
    *(
        "/agent",
        "/command",
        "/skill",
        "/lsp",
        "/formatter",
        "/mcp",
        "/config",
        "/config/providers",
        "/provider",
    ),
    *("/provider/auth", "/experimental/tool/ids", "/experimental/resource", "/experimental/capabilities"),
    *("/experimental/console", "/experimental/console/orgs", "/api/health", "/api/agent", "/api/command"),
    *("/api/skill", "/api/model", "/api/provider", "/api/integration", "/global/config"),
]


@pytest.mark.parametrize("path", ALL)
def test_an_answer_is_as_opencodes_document_has_it(get, path):
    get(path)


@pytest.mark.parametrize("path", [path for path in ALL if path.startswith("/api/") and path != "/api/health"])
def test_a_newer_route_says_for_which_directory_it_holds(server, get, tmp_path, path):
    project = {"id": "global", "directory": "/"}
    assert get(path)["location"] == {"directory": str(server.directory), "project": project}
    other = get(path, query={"location[directory]": str(tmp_path)})
    assert other["location"]["directory"] == str(tmp_path)


def test_providers_that_can_be_called_are_told_apart_from_those_that_are_known(get):
    usable, known = get("/config/providers"), get("/provider")
    assert (
        [one["id"] for one in usable["providers"]]
        == known["connected"]
        == ["mine", "open", "openai", "scripted"]
    )
    assert {"anthropic", "mine"} < {one["id"] for one in known["all"]}
    assert known["default"]["mine"] == "m"
    for one in usable["providers"] + known["all"]:
        assert known["default"][one["id"]] in one["models"]
    # A model that a provider lists nowhere is shown once the settings name it.
    assert "any" in next(one for one in usable["providers"] if one["id"] == "open")["models"]


def test_a_model_is_shown_with_what_the_settings_say_of_it(get):
    (mine,) = (one for one in get("/config/providers")["providers"] if one["id"] == "mine")
    assert mine["source"] == "config"
    model = mine["models"]["m"]
    assert (model["api"], model["name"]) == (
        {"id": "really-m", "url": "http://127.0.0.1:1/v1", "npm": "@ai-sdk/openai-compatible"},
        "M",
    )
    assert model["limit"] == {"context": 1000, "input": 900, "output": 100}
    assert model["cost"] == {"input": 1, "output": 2, "cache": {"read": 0.5, "write": 0}}
    takes = {"text": True, "audio": False, "image": True, "video": False, "pdf": True}
    assert model["capabilities"]["input"] == takes
    assert model["capabilities"]["interleaved"] == {"field": "reasoning_content"}
    assert (model["headers"], model["variants"]) == ({"x-key": "***"}, {"high": {"reasoningEffort": "high"}})
    (newer,) = (one for one in get("/api/model")["data"] if (one["providerID"], one["id"]) == ("mine", "m"))
    assert newer["variants"] == [{"id": "high", "headers": {}, "body": {"reasoningEffort": "high"}}]
    assert get("/api/provider/{providerID}", providerID="mine")["data"]["name"] == "mine"


def test_agents_and_commands_have_the_newer_form(get):
    (looker,) = (one for one in get("/api/agent")["data"] if one["id"] == "looker")
    looker["permissions"] = looker["permissions"][:1]
    assert looker == {
        "id": "looker",
        "model": {"id": "any", "providerID": "open", "variant": "high"},
        "request": {"headers": {}, "body": {}},
        "mode": "subagent",
        "hidden": False,
        "color": "#00ff00",
        "steps": 3,
        "permissions": [{"action": "*", "resource": "*", "effect": "allow"}],
    }
    (greet,) = (one for one in get("/api/command")["data"] if one["name"] == "greet")
    assert greet == {
        "name": "greet",
        "template": "Greet $1",
        "agent": "build",
        "model": {"id": "m", "providerID": "mine"},
        "subtask": True,
    }


def test_a_skill_is_listed_with_its_text_and_runs_as_a_command(server, get):
    (skill,) = get("/skill")
    path = server.directory / ".opencode/skill/tidy/SKILL.md"
    assert skill == {
        "name": "tidy",
        "description": "How to tidy",
        "location": str(path),
        "content": "Put $1 away.\n",
    }
    (command,) = (one for one in get("/command") if one["name"] == "tidy")
    assert (command["source"], command["hints"]) == ("skill", ["$1"])
    session_id = server.session()
    body = {"command": "tidy", "arguments": "toys", "model": "scripted/test"}
    assert server.http.post(f"/session/{session_id}/command", json=body).status_code == 200
    first = server.http.get(f"/session/{session_id}/message").json()[0]
    assert first["parts"][0]["text"] == f"Put toys away.\n\nThis skill's folder: {path.parent}"


def test_tools_are_those_that_a_model_is_offered(get):
    names = {"query": {"provider": "scripted", "model": "test"}}
    found = {tool["id"]: tool for tool in get("/experimental/tool", **names)}
    assert (
        {"bash", "read", "edit", "task", "skill", "question"}
        < set(found)
        < set(get("/experimental/tool/ids"))
    )
    assert found["bash"]["parameters"]["properties"]["command"]["type"] == "string"
    gpt = get("/experimental/tool", query={"provider": "openai", "model": "gpt-5"})
    assert "apply_patch" in [tool["id"] for tool in gpt]


@pytest.mark.slow
def test_an_mcp_server_is_added_switched_off_and_on_and_shows_what_it_offers(server, ask, get):
    assert get("/mcp") == {"off": {"status": "disabled"}}
    toy = {"type": "local", "command": [sys.executable, str(server.directory.parent / "toy.py")]}
    assert ask("POST", "/mcp", {"name": "toy", "config": toy})[1]["toy"] == {"status": "connected"}
    resource = {"name": "one", "uri": "toy://one", "mimeType": "text/plain", "client": "toy"}
    assert get("/experimental/resource") == {"toy:toy://one": resource}
    (prompt,) = (one for one in get("/command") if one.get("source") == "mcp")
    assert (prompt["name"], prompt["description"], prompt["hints"]) == ("toy:greet", "Greets", ["$1"])
    assert ask("POST", "/mcp/{name}/disconnect", name="toy") == (200, True)
    assert (get("/mcp")["toy"], get("/experimental/resource")) == ({"status": "disabled"}, {})
    assert ask("POST", "/mcp/{name}/connect", name="toy") == (200, True)
    assert get("/mcp")["toy"] == {"status": "connected"}
    broken = {"type": "local", "command": ["false"]}
    failed = ask("POST", "/mcp", {"name": "toy", "config": broken})[1]["toy"]
    assert failed == {"status": "failed", "error": "it ended with exit code 1"}
    # What was added lasts as long as the instance.
    server.http.post("/instance/dispose")
    assert get("/mcp") == {"off": {"status": "disabled"}}


@pytest.mark.parametrize(
    ("method", "rest", "body"),
    [
        ("POST", "/connect", None),
        ("POST", "/disconnect", None),
        ("POST", "/auth", None),
        ("POST", "/auth/authenticate", None),
        ("POST", "/auth/callback", {"code": "x"}),
        ("DELETE", "/auth", None),
    ],
)
def test_an_mcp_server_that_is_not_there_is_not_found(ask, method, rest, body):
    said = {"_tag": "McpServerNotFoundError", "name": "none", "message": "MCP server not found: none"}
    assert ask(method, "/mcp/{name}" + rest, body, name="none") == (404, said)


def test_no_mcp_server_is_logged_in_to(ask, server):
    refused = 400, {"error": "MCP server off does not support OAuth"}
    assert ask("POST", "/mcp/{name}/auth", name="off") == refused
    assert ask("POST", "/mcp/{name}/auth/authenticate", name="off") == refused
    assert ask("DELETE", "/mcp/{name}/auth", name="off") == (200, {"success": True})
    assert server.http.post("/mcp/off/auth/callback", json={"code": "x"}).status_code == 400


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/mcp", {"name": "x", "config": {"type": "nonsense"}}),
        ("POST", "/mcp", {"name": "x", "config": {"type": "local"}}),
        ("PUT", "/auth/x", {"type": "nonsense"}),
        ("PUT", "/auth/x", {"type": "api"}),
        ("PUT", "/auth/%20", {"type": "api", "key": "k"}),
        ("POST", "/log", {"service": "s", "level": "x", "message": "m"}),
        ("POST", "/global/upgrade", {}),
        ("POST", "/provider/cloud/oauth/authorize", {"method": -1}),
        ("POST", "/provider/cloud/oauth/authorize", {"method": 7}),
        ("POST", "/provider/cloud/oauth/authorize", {"method": 0}),
        ("GET", "/experimental/tool?provider=x", None),
    ],
)
def test_what_cannot_be_understood_is_a_bad_request(server, method, path, body):
    answer = server.http.request(method, path, json=body)
    assert (answer.status_code, answer.json()["name"]) == (400, "BadRequest")


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "tag"),
    [
        ("GET", "/api/provider/{providerID}", None, 404, "ProviderNotFoundError"),
        ("GET", "/api/integration/{integrationID}", None, 400, "InvalidRequestError"),
        ("GET", "/api/integration/attempt/{attemptID}", None, 400, "InvalidRequestError"),
        ("POST", "/api/integration/attempt/{attemptID}/complete", {"code": "x"}, 400, "InvalidRequestError"),
        ("POST", "/api/integration/{integrationID}/connect/key", {"key": " "}, 400, "InvalidRequestError"),
        ("POST", "/api/integration/{integrationID}/connect/key", {"key": 5}, 400, "InvalidRequestError"),
        (
            "POST",
            "/api/integration/{integrationID}/connect/oauth",
            {"methodID": "x", "inputs": {}},
            400,
            "InvalidRequestError",
        ),
        ("DELETE", "/api/integration/attempt/{attemptID}", None, 204, None),
        ("PATCH", "/api/credential/{credentialID}", {"label": "x"}, 204, None),
        ("DELETE", "/api/credential/{credentialID}", None, 204, None),
    ],
)
def test_what_is_not_there_is_answered_as_the_newer_routes_do(ask, method, path, body, status, tag):
    names = dict.fromkeys(("providerID", "integrationID", "attemptID", "credentialID"), "none")
    found, plain = ask(method, path, body, **names)
    assert (found, (plain or {}).get("_tag")) == (status, tag)


@pytest.fixture
def kept(server):
    """The file of logins, as `instar auth` keeps it; empty before and after."""
    path = server.directory.parent / "data" / "auth.json"
    yield lambda: json.loads(path.read_text()) if path.exists() else {}
    path.unlink(missing_ok=True)


@pytest.mark.parametrize(
    "entry",
    [
        {"type": "api", "key": "sk-new"},
        {"type": "api", "key": "sk-new", "metadata": {"account": "a"}},
        {
            "type": "oauth",
            "refresh": "r",
            "access": "a",
            "expires": 5,
            "accountId": "i",
            "enterpriseUrl": "u",
        },
        {"type": "wellknown", "key": "K", "token": "t"},
    ],
)
def test_a_login_is_kept_and_forgotten(ask, kept, entry):
    assert ask("PUT", "/auth/{providerID}", entry, providerID="anthropic") == (200, True)
    assert kept() == {"anthropic": entry}
    assert ask("DELETE", "/auth/{providerID}", providerID="anthropic") == (200, True)
    assert kept() == {}
    assert ask("DELETE", "/auth/{providerID}", providerID="anthropic") == (200, True)


def test_a_key_that_is_kept_connects_its_provider_once_the_instance_was_opened_anew(server, ask, get, kept):
    ask("PUT", "/auth/{providerID}", {"type": "api", "key": "sk-new"}, providerID="anthropic")
    server.http.post("/instance/dispose")
    assert "anthropic" in get("/provider")["connected"]


def test_a_damaged_file_of_logins_is_said_and_left_as_it_is(server, kept):
    path = server.directory.parent / "data" / "auth.json"
    path.write_text("{")
    path.chmod(0o600)
    for method, url in (("PUT", "/auth/x"), ("DELETE", "/auth/x"), ("GET", "/api/integration")):
        body = {"type": "api", "key": "k"} if method == "PUT" else None
        answer = server.http.request(method, url, json=body)
        assert answer.status_code == 400
        assert "auth.json: this is no JSON" in answer.text
    assert path.read_text() == "{"


def test_a_connection_is_shown_named_and_ended(ask, get, kept):
    url = "/api/integration/{integrationID}"
    ask("POST", url + "/connect/key", {"key": "sk-new", "label": "work"}, integrationID="anthropic")
    found = get(url, integrationID="anthropic")["data"]
    (connection,) = found.pop("connections")
    assert connection["label"] == "work"
    assert found == {
        "id": "anthropic",
        "name": "Anthropic",
        "methods": [{"type": "key"}, {"type": "env", "names": ["ANTHROPIC_API_KEY"]}],
    }
    ask("PATCH", "/api/credential/{credentialID}", {"label": "home"}, credentialID=connection["id"])
    assert get(url, integrationID="anthropic")["data"]["connections"][0]["label"] == "home"
    assert kept()["anthropic"]["key"] == "sk-new"
    ask("DELETE", "/api/credential/{credentialID}", credentialID=connection["id"])
    assert get(url, integrationID="anthropic")["data"]["connections"] == []
    openai = get(url, integrationID="openai")["data"]["connections"]
    assert openai == [{"type": "env", "name": "OPENAI_API_KEY"}]


LOGIN = {"type": "oauth", "refresh": "sk-refresh", "access": "sk-access", "expires": 1}


def test_the_ways_to_log_in_are_those_of_plugins(get):
    select = {
        "type": "select",
        "key": "how",
        "message": "How?",
        "options": [{"label": "Code", "value": "code"}],
    }
    text = {"type": "text", "key": "where", "message": "Where?"}
    browser = {"type": "oauth", "label": "The browser", "prompts": [text, select]}
    assert get("/provider/auth") == {"cloud": [{"type": "api", "label": "A key"}, browser]}


@pytest.mark.parametrize(
    ("inputs", "mode", "end"), [({}, "auto", {}), ({"how": "code"}, "code", {"code": "right"})]
)
def test_a_person_logs_in_by_a_plugin(ask, kept, inputs, mode, end):
    url = "/provider/{providerID}/oauth/"
    begun = ask("POST", url + "authorize", {"method": 1, "inputs": inputs}, providerID="cloud")
    assert begun == (200, {"url": "https://login.example", "method": mode, "instructions": "Go there"})
    assert ask("POST", url + "callback", {"method": 1, **end}, providerID="cloud") == (200, True)
    assert kept() == {"cloud": LOGIN}


@pytest.mark.parametrize(
    ("inputs", "end", "name"),
    [
        ({"where": "x"}, None, "ProviderAuthValidationFailed"),
        ({"how": "shouting"}, None, "ProviderAuthValidationFailed"),
        ({"where": "nowhere"}, None, "ProviderAuthOauthCallbackFailed"),
        ({"how": "code"}, {}, "ProviderAuthOauthCodeMissing"),
        ({"how": "code"}, {"code": "wrong"}, "ProviderAuthOauthCallbackFailed"),
    ],
)
def test_a_login_that_fails_says_why_and_keeps_nothing(ask, kept, inputs, end, name):
    url = "/provider/{providerID}/oauth/"
    status, plain = ask("POST", url + "authorize", {"method": 1, "inputs": inputs}, providerID="cloud")
    if end is not None:
        assert status == 200
        status, plain = ask("POST", url + "callback", {"method": 1, **end}, providerID="cloud")
    assert (status, plain["name"]) == (400, name)
    assert kept() == {}


def test_a_login_that_nobody_began_cannot_be_ended(ask):
    answer = ask("POST", "/provider/{providerID}/oauth/callback", {"method": 0}, providerID="other")
    assert answer == (400, {"name": "ProviderAuthOauthMissing", "data": {"providerID": "other"}})


@pytest.mark.parametrize("how", ["auto", "code"])
def test_a_login_by_the_newer_routes_is_followed_to_its_end(ask, get, kept, how):
    methods = get("/api/integration/{integrationID}", integrationID="cloud")["data"]["methods"]
    (oauth,) = (one for one in methods if one["type"] == "oauth")
    body = {"methodID": oauth["id"], "inputs": {"how": "code"} if how == "code" else {}}
    begun = ask("POST", "/api/integration/{integrationID}/connect/oauth", body, integrationID="cloud")[1][
        "data"
    ]
    assert (begun["url"], begun["mode"]) == ("https://login.example", how)
    assert begun["time"]["created"] <= time.time() * 1000 < begun["time"]["expires"]
    attempt = "/api/integration/attempt/{attemptID}"
    if how == "code":
        assert get(attempt, attemptID=begun["attemptID"])["data"]["status"] == "pending"
        ask("POST", attempt + "/complete", {"code": "right"}, attemptID=begun["attemptID"])
    wait_until(lambda: get(attempt, attemptID=begun["attemptID"])["data"]["status"] == "complete")
    assert kept() == {"cloud": LOGIN}
    assert ask("DELETE", attempt, attemptID=begun["attemptID"]) == (204, None)
    assert ask("GET", attempt, attemptID=begun["attemptID"])[0] == 400


def test_a_clients_line_stands_in_the_log(server, ask):
    line = {"service": "tui", "level": "error", "message": "it went\nwrong", "extra": {"a": 1}}
    assert ask("POST", "/log", line) == (200, True)
    (log,) = (server.directory.parent / "state").rglob("instar.log")
    assert "service=tui it went" in log.read_text()


@pytest.mark.slow
def test_what_instar_leaves_to_others_is_said(ask):
    status, said = ask("POST", "/global/upgrade", {"target": "9.9.9"})
    assert (status, said["success"]) == (200, False)
    assert ask("POST", "/experimental/console/switch", {"accountID": "a", "orgID": "o"}) == (200, False)
