"""config/evolve.jsonc and EVOLVE_* variables."""

from pathlib import Path

import pytest

from instar.plugins.evolve import settings

SEED = """{
  "model": null,                   // "provider/model" or { providerID, modelID } (auto-detected if omitted)
  "heartbeat_ms": 1800000,        // heartbeat interval (30 min)
  "hook_timeout": 30000,          // subprocess timeout (30s)
  "heartbeat_title": "heartbeat", // heartbeat session title
  "heartbeat_agent": "evolve",    // agent ID for heartbeat prompts
  "heartbeat_cleanup": "none",     // "none" | "new" | "archive" | "compact"
  "heartbeat_cleanup_count": null, // cleanup after N heartbeats (null = disabled)
  "heartbeat_cleanup_tokens": null // cleanup after N total tokens (null = disabled)
}
"""


def load(tmp_path: Path, text: str | bytes, **environment: str) -> settings.LoadedSettings:
    path = tmp_path / "evolve.jsonc"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return settings.load(path, environment)


def test_the_readmes_example_is_the_defaults(tmp_path):
    assert load(tmp_path, SEED).settings == settings.EvolveSettings()
    assert settings.load(tmp_path / "missing.jsonc", {}).settings == settings.EvolveSettings()


def test_slashes_inside_a_string_are_no_comment(tmp_path):
    found = load(
        tmp_path, '{"heartbeat_title": "see https://example.org/x", "heartbeat_ms": -1} // off'
    ).settings
    assert found.heartbeat_title == "see https://example.org/x"
    assert found.heartbeat_ms == -1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{\n  "hook_timeout": 1,\n  oops\n}', ":3:3: expected"),
        ('{\n  "heartbeat_ms": "soon"\n}', ':2:19: heartbeat_ms: Expected `int`, got `str`, found "soon"'),
        ('{"heartbeat_ms": true}', "Expected `int`, got `bool`, found true"),
        ('{"hook_timeout": 0}', "Expected `int` >= 1, found 0"),
        ('{"heartbeat_cleanup": "delete"}', "expected one of none, new, archive, compact"),
        ('{"heartbeat_skip_active": 1}', "Expected `bool`, got `int`, found 1"),
        ('{"heartbeat_cleanup_count": 0.5}', "Expected `int | null`, got `float`, found 0.5"),
        ('{"model": "gpt"}', 'Expected `str` of length >= 1 - at `$.modelID`, found "gpt"'),
        ('{"heartbeat_agent": null}', "Expected `str`, got `null`, found null"),
        ("[]", ":1:1: expected an object of settings, found []"),
        (b'{\n "model": "\xff"}', ":2:12: expected UTF-8"),
        ("", ":1:1: expected"),
    ],
)
def test_a_mistake_names_its_place_what_was_expected_and_what_was_found(tmp_path, text, says):
    with pytest.raises(settings.SettingsError) as error:
        load(tmp_path, text)
    assert says in str(error.value)
    assert "evolve.jsonc" in str(error.value)


@pytest.mark.parametrize("given", ["-1", "-2", "-1800000"])
def test_any_negative_interval_switches_the_heartbeat_off(tmp_path, given):
    assert load(tmp_path, f'{{"heartbeat_ms": {given}}}').settings.heartbeat_ms == int(given)
    assert load(tmp_path, "{}", EVOLVE_HEARTBEAT_MS=given).settings.heartbeat_ms == int(given)


def test_variables_win_over_the_file(tmp_path):
    found = load(
        tmp_path,
        '{"model": "a/b", "heartbeat_ms": 5}',
        EVOLVE_MODEL="x/y/z",
        EVOLVE_HEARTBEAT_AGENT="nurse",
        EVOLVE_HEARTBEAT_MS="-1",
        EVOLVE_HEARTBEAT_CLEANUP_COUNT="null",
        EVOLVE_PASS_ENVIRONMENT="A_TOKEN,B_TOKEN",
        EVOLVE_HOOK_TIMEOUT="",
    ).settings
    assert found.model == settings.ModelName("x", "y/z")
    assert (found.heartbeat_agent, found.heartbeat_ms, found.hook_timeout) == ("nurse", -1, 30_000)
    assert found.pass_environment == ("A_TOKEN", "B_TOKEN")


def test_a_mistake_in_a_variable_names_the_variable(tmp_path):
    with pytest.raises(
        settings.SettingsError, match="EVOLVE_HOOK_TIMEOUT in the environment: Expected `int`"
    ):
        load(tmp_path, "{}", EVOLVE_HOOK_TIMEOUT="soon")


def test_a_model_may_be_an_object(tmp_path):
    found = load(tmp_path, '{"model": {"providerID": "p", "modelID": "m"}}').settings
    assert found.model == settings.ModelName("p", "m")


def test_an_unknown_setting_is_said_with_its_place_and_the_nearest_name(tmp_path):
    loaded = load(tmp_path, '{\n "heartbeat_msec": 3\n}')
    (warning,) = loaded.warnings
    assert ":2:20: unknown setting 'heartbeat_msec' is ignored; did you mean 'heartbeat_ms'?" in warning
