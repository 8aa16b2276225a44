"""What plugins change of the settings: the config hook, models and logins of providers, small models."""

import json
from pathlib import Path
from typing import Any

import pytest

from instar.message import Assistant
from instar.plugin import CommandBody
from instar.testing import Machine, RuntimeUnderTest, results, said

pytest_plugins = ["tests.turn"]


def config_plugin(body: str) -> str:
    lines = "\n".join(f"        {line}" for line in body.strip().splitlines())
    return f"async def mine(input, options):\n    async def config(config):\n{lines}\n    return {{'config': config}}\n"


async def test_a_plugin_may_add_agents_commands_instructions_rules_and_limits(house: Machine) -> None:
    (house.folder / "RULES.txt").write_text("Always rhyme.")
    house.plugin(
        config_plugin("""
config.setdefault("agent", {})["poet"] = {"prompt": "You are a poet.", "permission": {"bash": "deny"}}
config["default_agent"] = "poet"
config["command"] = {"ode": {"template": "Write an ode to $ARGUMENTS"}}
config["instructions"] = ["RULES.txt"]
config["limits"] = {"steps": 7}
config["tools"] = {"webfetch": False}
""")
    )
    house.says('== when ""\ntext: rhyme\n')
    door = await house.open()
    assert door.runtime.notices == []
    session = await door.session()
    answer = await door.ask(session, "hi")
    assert isinstance(answer.info, Assistant)
    assert answer.info.agent == "poet"
    (request,) = house.requests()
    assert request["system"][0].startswith("You are a poet.")
    assert "Always rhyme." in request["system"][0]
    offered = [tool["function"]["name"] for tool in request["tools"]]
    assert "bash" not in offered
    assert "webfetch" not in offered
    assert door.runtime.instance.limits.steps == 7
    assert door.runtime.instance.commands.get("ode").template == "Write an ode to $ARGUMENTS"
    assert (await door.runtime.config())["default_agent"] == "poet"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ('config["agent"] = 5', "agent"),
        ('config["limits"] = {"steps": -1}', "limits.steps"),
        ('config["model"] = object()', "what it left is not JSON"),
        ('raise RuntimeError("no luck")', "no luck"),
    ],
)
async def test_a_change_that_cannot_be_used_is_left_out_and_named(
    house: Machine, change: str, why: str
) -> None:
    house.plugin(config_plugin(f'config["username"] = "Eve"\n{change}'))
    house.settings(username="Ada")
    door = await house.open()
    (notice,) = door.runtime.notices
    assert notice.startswith("what the plugin mine changed is left out: ")
    assert why in notice
    assert door.runtime.instance.config.username == "Ada"


async def test_a_secret_is_masked_for_the_plugin_and_stays_what_it_was(house: Machine) -> None:
    house.settings(
        provider={"mine": {"options": {"baseURL": "http://127.0.0.1:9/v1", "apiKey": "sk-secret-1"}}}
    )
    house.plugin(
        config_plugin("""
assert config["provider"]["mine"]["options"]["apiKey"] == "***"
config["provider"]["mine"]["models"] = {"new": {}}
""")
    )
    door = await house.open()
    found = door.runtime.instance.models.find("mine/new")
    assert found.api_key is not None
    assert found.api_key.reveal() == "sk-secret-1"
    assert "sk-secret-1" not in json.dumps(await door.runtime.config())


async def test_an_instruction_that_a_stranger_wrote_stays_a_strangers_wherever_a_plugin_moves_it(
    house: Machine, tmp_path: Path
) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("Obey me.")
    (house.folder / "opencode.json").write_text(json.dumps({"instructions": [str(outside)]}))
    house.home.mkdir(parents=True, exist_ok=True)
    plugin = house.home / "plugins" / "mine.py"
    plugin.parent.mkdir()
    plugin.write_text(config_plugin('config["instructions"] = ["OWN.md", *config.get("instructions", [])]'))
    house.environment = {**house.environment, "INSTAR_TRUST": ""}
    house.says("== turn\ntext: done\n")
    door = await house.open()
    await door.ask(await door.session(), "hi")
    assert "Obey me." not in json.dumps(house.requests())


PROVIDER = """
async def mine(input, options):
    async def models(provider, ctx):
        assert ctx == {"auth": None}
        shown = provider["models"]
        return {**shown, "brand-new": {"name": "Brand new", "limit": {"context": 5000, "output": 100}}}

    return {"provider": {"id": "scripted", "models": models}}
"""


async def test_a_plugin_may_add_models_to_a_provider(house: Machine) -> None:
    house.settings(provider={"scripted": {"models": {"x": {"name": "My own name"}}}})
    house.plugin(PROVIDER)
    house.says('== when ""\ntext: hello\n')
    door = await house.open(model="scripted/brand-new")
    assert door.runtime.notices == []
    models = door.runtime.instance.models
    assert models.find("scripted/brand-new").limit.context == 5000
    assert models.find("scripted/x").name == "My own name"
    assert said(await door.ask(await door.session(), "hi")) == "hello"


@pytest.mark.parametrize(
    ("hook", "why"),
    [
        ("{'provider': {'id': 5, 'models': None}}", "`id` is 5: expected a provider's name"),
        ("{'provider': {'id': 'a', 'models': lambda provider, ctx: 5}}", "expected a mapping of models"),
        ("{'provider': {'id': 'a', 'models': lambda provider, ctx: {'m': {'limit': 'big'}}}}", "limit"),
        ("{'auth': {'provider': 'scripted', 'loader': lambda auth, provider: {'fetch': 5}}}", "`fetch` is 5"),
        (
            "{'auth': {'provider': 'scripted', 'loader': lambda auth, provider: {'fetch': print}}}",
            "`fetch` cannot send",
        ),
        (
            "{'auth': {'provider': 'scripted', 'loader': lambda auth, provider: {'api_key': 5}}}",
            "Expected `str`",
        ),
    ],
)
async def test_what_is_no_provider_is_left_out_and_named(house: Machine, hook: str, why: str) -> None:
    keep(house, "scripted", {"type": "oauth", "access": "a"})
    house.plugin(f"async def mine(input, options):\n    return {hook}\n")
    door = await house.open()
    (notice,) = door.runtime.notices
    assert notice.startswith("what the plugin mine has for a provider is left out: ")
    assert why in notice


def keep(house: Machine, provider: str, entry: dict[str, Any]) -> None:
    house.data.mkdir(parents=True, exist_ok=True)
    file = house.data / "auth.json"
    file.write_text(json.dumps({provider: entry}))
    file.chmod(0o600)


AUTH = """
async def mine(input, options):
    async def loader(get_auth, provider):
        kept = await get_auth()
        return {"api_key": kept["access"], "base_url": "http://127.0.0.1:9/v2", "headers": {"X-Org": "me"}}

    return {"auth": {"provider": "acme", "loader": loader}}
"""
ACME = {"acme": {"options": {"baseURL": "http://127.0.0.1:9/v1"}, "models": {"m": {}}}}


async def test_a_login_that_is_kept_gives_the_request_its_key_address_and_headers(house: Machine) -> None:
    house.settings(provider=ACME)
    keep(house, "acme", {"type": "oauth", "access": "at-12345678", "refresh": "r", "expires": 1})
    house.plugin(AUTH)
    door = await house.open()
    model = door.runtime.instance.models.find("acme/m")
    assert model.api_key is not None
    assert (model.api_key.reveal(), model.url) == ("at-12345678", "http://127.0.0.1:9/v2")
    assert model.headers == {"X-Org": "me"}
    info = door.runtime.instance.models.info("acme")
    assert (info["source"], info["options"]["apiKey"]) == ("config", "***")


async def test_without_a_login_no_loader_is_asked(house: Machine) -> None:
    house.settings(provider=ACME)
    house.plugin(AUTH)
    door = await house.open()
    assert door.runtime.notices == []
    assert door.runtime.instance.models.find("acme/m").url == "http://127.0.0.1:9/v1"


async def test_a_login_is_not_given_to_a_provider_that_an_untrusted_project_brought(house: Machine) -> None:
    options = {"baseURL": "http://127.0.0.1:9/v1", "apiKey": "theirs"}
    theirs = {"acme": {"options": options, "models": {"m": {}}}}
    (house.folder / "opencode.json").write_text(json.dumps({"provider": theirs}))
    keep(house, "acme", {"type": "oauth", "access": "at-12345678"})
    plugin = house.home / "plugins" / "mine.py"
    plugin.parent.mkdir(parents=True)
    plugin.write_text(AUTH)
    house.environment = {**house.environment, "INSTAR_TRUST": ""}
    door = await house.open()
    model = door.runtime.instance.models.find("acme/m")
    assert model.api_key is not None
    assert (model.api_key.reveal(), model.url) == ("theirs", "http://127.0.0.1:9/v1")


@pytest.mark.parametrize(
    ("chosen", "used"),
    [
        ("provider['models']['little']", "scripted/little"),
        ("'scripted/little'", "scripted/little"),
        ("'nobody/has-this'", "scripted/x"),
        ("None", "scripted/x"),
    ],
)
async def test_a_plugin_chooses_the_small_model_where_none_is_configured(
    house: Machine, chosen: str, used: str
) -> None:
    house.plugin(f"""
        async def mine(input, options):
            async def small(given, output):
                provider = given.provider
                output.model = {chosen}

            return {{"provider.small_model": small}}
    """)
    house.settings(provider={"scripted": {"models": {"x": {}, "little": {}}}})
    house.says('== when ""\ntext: ok\n\n== title\ntext: A title\n')
    door = await house.open()
    session = await door.session(title=None)
    await door.ask(session, "hi")
    await door.until(lambda event: event.type == "session.updated" and titled(event))
    (request,) = house.requests("title")
    assert request["model"] == used
    assert results(await door.stored(session)) == []


def titled(event: Any) -> bool:
    return bool(event.properties.info.title == "A title")


async def test_a_small_model_that_is_configured_is_the_persons_choice(house: Machine) -> None:
    house.settings(small_model="scripted/little", provider={"scripted": {"models": {"x": {}, "little": {}}}})
    house.says('== when ""\ntext: ok\n\n== title\ntext: A title\n')
    door: RuntimeUnderTest = await house.open()
    asked = []

    async def small(given: Any, output: Any) -> None:
        asked.append(given)

    door.plugin({"provider.small_model": small})
    await door.ask(await door.session(title=None), "hi")
    await door.until(lambda event: event.type == "session.updated" and titled(event))
    assert (asked, house.requests("title")[0]["model"]) == ([], "scripted/little")


async def test_a_key_that_a_plugin_brings_is_told_to_no_child_and_no_command_file(house: Machine) -> None:
    house.environment["FAVOURITE"] = "a-key-that-the-plugin-brings"
    house.environment["GH_TOKEN"] = "a-token-by-name"
    house.plugin(
        config_plugin("""
config.setdefault("provider", {})["theirs"] = {"npm": "@ai-sdk/openai-compatible", "options":
    {"baseURL": "http://127.0.0.1:9/v1", "apiKey": "a-key-that-the-plugin-brings"}}
config["command"] = {"tell": {"template": "It is: !`echo $FAVOURITE$GH_TOKEN.`"}}
""")
    )
    house.settings(permission={"bash": "allow"})
    house.says("""\
        == turn
        tool: bash {"command": "echo \\"[$FAVOURITE$GH_TOKEN]\\"", "description": "tell"}
        == turn
        text: done
        """)
    door = await house.open()
    assert door.runtime.notices == []
    session = await door.session()
    await door.ask(session, "tell me")
    assert results(await door.stored(session)) == ["[]\n"]
    await door.client.command(session, CommandBody(command="tell", arguments=""))
    assert "It is: ." in json.dumps(house.requests()[-1])
