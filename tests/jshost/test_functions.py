"""What holds functions: models and logins of a provider, kinds of workspaces; and what the child may reach."""

import json
from collections.abc import Callable
from pathlib import Path

from instar.plugin import SessionBody
from instar.testing import Machine, said

Write = Callable[..., Path]


async def test_a_plugin_adds_models_and_its_login_is_turned_into_options(
    house: Machine, write: Write
) -> None:
    write("""
        export const P = async ({ directory }) => ({
          provider: { id: "own", async models(provider, ctx) {
            return { added: { name: `Added beside ${Object.keys(provider.models)} ${ctx.auth?.key}`,
              limit: { context: 9000, output: 1000 } } }
          } },
          auth: { provider: "own", methods: [
            { type: "api", label: "Key" },
            { type: "oauth", label: "Log in",
              prompts: [{ type: "text", key: "who", message: "Who?", validate: () => "no" }],
              async authorize(inputs) {
                return { url: "https://example.com/" + inputs.who, instructions: "Go there", method: "code",
                  callback: async (code) => ({ type: "success", key: "key-of-" + code }) }
              } },
          ], async loader(auth, provider) {
            return { apiKey: (await auth()).key + "!", headers: { "x-own": "1" } }
          } },
        })
    """)
    house.settings(
        provider={
            "own": {
                "npm": "@ai-sdk/openai-compatible",
                "options": {"baseURL": "http://127.0.0.1:9/v1"},
                "models": {"old": {}},
            }
        }
    )
    house.data.mkdir(parents=True, exist_ok=True)
    (house.data / "auth.json").write_text('{"own": {"type": "api", "key": "kept-key"}}')
    (house.data / "auth.json").chmod(0o600)
    door = await house.open()
    assert not door.runtime.notices
    model = door.runtime.instance.models.find("own/added")
    assert model.limit.context == 9000
    assert model.name == "Added beside old kept-key"
    ((name, hook),) = door.runtime.instance.plugins.registered("auth")
    assert name == "mine"
    assert [one["label"] for one in hook["methods"]] == ["Key", "Log in"]
    assert hook["methods"][1]["prompts"] == [{"type": "text", "key": "who", "message": "Who?"}]
    begun = await hook["methods"][1]["authorize"]({"who": "ada"})
    assert begun["url"] == "https://example.com/ada"
    assert await begun["callback"]("7") == {"type": "success", "key": "key-of-7"}


async def test_a_plugin_offers_a_kind_of_workspace(house: Machine, write: Write) -> None:
    write("""
        import { mkdirSync, rmSync } from "node:fs"
        class Folder {
          constructor(root) { this.root = root; this.name = "Folder"; this.description = "A folder." }
          configure(info) { return { ...info, directory: `${this.root}/${info.name}` } }
          async create(info) { mkdirSync(info.directory) }
          async remove(info) { rmSync(info.directory, { recursive: true }) }
          target(info) { return { type: "local", directory: info.directory } }
        }
        export const P = async ({ directory, experimental_workspace }) => {
          experimental_workspace.register("folder", new Folder(directory))
        }
    """)
    door = await house.open()
    assert (await door.runtime.workspace.types())["folder"] == "A folder."
    made = await door.runtime.workspace.create("folder", name="apart")
    assert (house.folder / "apart").is_dir()
    session = await door.client.create(SessionBody(title="x", workspace_id=made.id))
    assert session.directory == str(house.folder / "apart")
    await door.runtime.workspace.remove("apart", force=True)
    assert not (house.folder / "apart").exists()


async def test_the_child_is_told_no_secrets_and_does_not_see_instars_own_files(
    house: Machine, write: Write
) -> None:
    house.environment |= {"OPENAI_API_KEY": "sk-very-secret", "EDITOR": "vi"}  # type: ignore[operator]
    house.data.mkdir(parents=True, exist_ok=True)
    (house.data / "trust.json").write_text('{"folders": {}}')
    write("""
        import { readFileSync, writeFileSync } from "node:fs"
        const tried = (work) => { try { return work() } catch (error) { return "refused" } }
        export const P = async () => ({ "text.complete": async (i, o) => {
          const own = process.env.XDG_DATA_HOME + "/instar/trust.json"
          o.text = JSON.stringify([process.env.OPENAI_API_KEY ?? null, process.env.EDITOR,
            tried(() => readFileSync(own, "utf8")), tried(() => writeFileSync(own, "mine"))])
        } })
    """)
    house.says("== turn\ntext: hello\n")
    door = await house.open()
    assert json.loads(said(await door.ask(await door.session(), "hi"))) == [None, "vi", "refused", "refused"]
