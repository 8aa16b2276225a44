"""What plugins bring from the real registry, or count on: TypeScript, zod, effect, the SDK. `make test-js` runs it."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.jshost.conftest import programs

from instar.jshost.host import find_engine
from instar.plugin import PromptBody, SessionBody
from instar.runtime import Options, Runtime
from instar.server.own_server import OwnServer
from instar.testing import Machine, said

Write = Callable[..., Path]

PACKAGES = ("zod@4.6.7", "zod3@npm:zod@3.25.76", "effect@3", "effect4@npm:effect@4.0.0-beta.83")


def npm(folder: Path, *packages: str) -> Path:
    """Install packages into a folder, without their scripts, and return where they are."""
    asked = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", str(folder)]
    subprocess.run([*asked, *packages], check=True, capture_output=True)
    return folder / "node_modules"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packages")
    return npm(folder, *PACKAGES)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def modules(house: Machine, installed: Path, kept: Path) -> None:
    # What instar itself installs is installed once for all of these tests.
    house.environment |= {"XDG_CACHE_HOME": str(kept)}  # type: ignore[operator]
    (house.folder / "node_modules").symlink_to(installed)


async def tools(house: Machine) -> dict[str, Any]:
    house.says("== turn\ntext: hello\n")
    door = await house.open()
    assert not door.runtime.notices
    await door.ask(await door.session(), "hi")
    return {one["function"]["name"]: one["function"]["parameters"] for one in house.requests()[0]["tools"]}


SHAPE = """
export const P = async () => ({ tool: { t: { description: "T", execute: async () => "x", args: {
  text: z.string().min(2).max(9).regex(/^a/).describe("a text"), mail: z.string().email(), where: z.string().url(),
  count: z.number().int().min(1).max(5), many: z.array(z.string()).min(1).max(3), flag: z.boolean().optional(),
  one: z.enum(["a", "b"]).default("a"), exact: z.literal("x"), either: z.union([z.string(), z.number()]),
  none: z.string().nullable(), deep: z.object({ a: z.number().gt(0), b: z.string().optional() }).describe("deep"),
  map: z.record(z.string(), z.number()), pair: z.tuple([z.string(), z.number()]), any: z.any().optional(),
  kind: z.discriminatedUnion("k", [z.object({ k: z.literal("a") }), z.object({ k: z.literal("b") })]),
  made: z.string().transform((text) => text.length), checked: z.string().refine((text) => text !== "no"),
} } } })
"""
FIELDS = {
    "text": {"type": "string", "minLength": 2, "maxLength": 9, "pattern": "^a", "description": "a text"},
    "mail": {"type": "string", "format": "email"},
    "where": {"type": "string", "format": "uri"},
    "count": {"type": "integer", "minimum": 1, "maximum": 5},
    "many": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 3},
    "flag": {"type": "boolean"},
    "one": {"type": "string", "enum": ["a", "b"], "default": "a"},
    "exact": {"const": "x"},
    "either": {"anyOf": [{"type": "string"}, {"type": "number"}]},
    "none": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    "deep": {
        "type": "object",
        "properties": {"a": {"type": "number", "exclusiveMinimum": 0}, "b": {"type": "string"}},
        "required": ["a"],
        "description": "deep",
    },
    "map": {
        "type": "object",
        "propertyNames": {"type": "string"},
        "additionalProperties": {"type": "number"},
    },
    "pair": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "number"}], "items": False},
    "any": {},
    "kind": {
        "anyOf": [
            {
                "type": "object",
                "properties": {"k": {"const": letter}},
                "required": ["k"],
            }
            for letter in "ab"
        ]
    },
    "made": {"type": "string"},
    "checked": {"type": "string"},
}


@pytest.mark.usefixtures("modules")
@pytest.mark.parametrize("zod", ["zod", "zod3"])
async def test_arguments_of_both_zods_become_json_schema(house: Machine, write: Write, zod: str) -> None:
    write(f'import {{ z }} from "{zod}"\n{SHAPE}')
    found = (await tools(house))["t"]
    assert found["properties"] == FIELDS
    assert sorted(found["required"]) == sorted(set(FIELDS) - {"flag", "one", "any"})


RECURSIVE = """
const Json = z.lazy(() => z.union([z.string(), z.array(Json), z.record(z.string(), Json)])).describe("any JSON")
const Tree = z.object({ name: z.string(), children: z.lazy(() => z.array(Tree)).optional() })
export const P = async () => ({ tool: { t: { description: "T", execute: async () => "x", args: {
  value: Json, again: Json, tree: Tree,
} } } })
"""


@pytest.mark.usefixtures("modules")
@pytest.mark.parametrize("zod", ["zod", "zod3"])
async def test_a_schema_that_holds_itself_is_named_once_and_referred_to(
    house: Machine, write: Write, zod: str
) -> None:
    write(f'import {{ z }} from "{zod}"\n{RECURSIVE}')
    found = (await tools(house))["t"]
    properties, defined = found["properties"], found["$defs"]
    itself = properties["value"]
    name = itself["$ref"].removeprefix("#/$defs/")
    assert defined[name] == {
        "anyOf": [
            {"type": "string"},
            {"type": "array", "items": itself},
            {"type": "object", "propertyNames": {"type": "string"}, "additionalProperties": itself},
        ],
        "description": "any JSON",
    }
    tree = properties["tree"]
    assert defined[tree["$ref"].removeprefix("#/$defs/")]["properties"]["children"] == {
        "type": "array",
        "items": tree,
    }
    assert set(found["required"]) == {"value", "again", "tree"}


ASKING = """
import { Effect } from "EFFECT"
export const P = async () => ({ tool: { t: { description: "T", args: {}, async execute(args, ctx) {
  const asked = { permission: "fly", patterns: ["Rome"], always: ["*"], metadata: {} }
  await ctx.ask(asked)
  await Effect.runPromise(ctx.ask(asked))
  await Effect.runPromise(ctx.ask(asked).pipe(Effect.map(() => 1)))
  const swim = ctx.ask({ ...asked, permission: "swim" })
  const refused = await Effect.runPromise(swim).then(() => "went", (error) => String(error))
  return "flown, " + refused
} } } })
"""


@pytest.mark.usefixtures("modules")
@pytest.mark.parametrize("effect", ["effect", "effect4"])
async def test_ask_works_awaited_and_through_effect(house: Machine, write: Write, effect: str) -> None:
    write(ASKING.replace("EFFECT", effect))
    house.settings(permission={"swim": "deny", "fly": "allow"})
    house.says("== turn\ntool: t {}\n== turn\ntext: {{tool}}\n")
    door = await house.open()
    answer = said(await door.ask(await door.session(), "hi"))
    assert answer.startswith("flown, ")
    assert "swim" in answer


TYPED = """
import { type Plugin, tool } from "@opencode-ai/plugin"
import { word } from "./../lib/word"
import data from "../lib/data.json"
enum Kind { A = "a", B = "b" }
class Held { constructor(private readonly text: string) {} get(): string { return this.text } }
export const Typed: Plugin = async ({ client }) => ({
  tool: { t: tool({
    description: "T",
    args: { city: tool.schema.string().describe("which") },
    async execute(args, ctx) {
      const found = await client.session.get({ path: { id: ctx.sessionID } })
      return [args.city, word, data.n, Kind.B, new Held("held").get(), found.data?.title ?? found.error].join(" ")
    },
  }) },
})
"""


@pytest.fixture(params=["node", "bun"])
def program(request: pytest.FixtureRequest, house: Machine, kept: Path, tmp_path: Path) -> str:
    """Each program that runs JavaScript; bun is installed from npm beside the cache."""
    if request.param == "bun":
        folder = kept / "bun"
        if not folder.exists():
            npm(folder, "@oven/bun-linux-x64-baseline@1.3.0")
        found = folder / "node_modules" / "@oven" / "bun-linux-x64-baseline" / "bin"
        (found / "bun").chmod(0o755)
        house.environment |= {"PATH": f"{found}:{house.environment['PATH']}"}  # type: ignore[operator]
    assert find_engine(house.environment).name == request.param
    return str(request.param)


async def test_typescript_that_counts_on_what_opencode_offers_asks_the_server_through_the_sdk(
    house: Machine, write: Write, kept: Path, program: str
) -> None:
    house.environment |= {"XDG_CACHE_HOME": str(kept)}  # type: ignore[operator]
    write(TYPED, "typed.ts")
    write('export const word: string = "w"', "word.ts", ".opencode/lib")
    write('{"n": 7}', "data.json", ".opencode/lib")
    house.says('== turn\ntool: t {"city": "Rome"}\n== turn\ntext: {{tool}}\n')
    asked = Options(house.folder, house.environment, {"model": "scripted/x"}, serve=OwnServer)
    async with await Runtime.open(asked) as runtime:
        assert not runtime.notices
        assert runtime.instance.plugins.loaded[0].host.runs == program
        session = (await runtime.session.create(SessionBody(title="named"))).id
        answer = await runtime.session.prompt(session, PromptBody.text("hi"))
        assert said(answer) == "Rome w 7 b held named"


HOOK = "async () => ({ 'text.complete': async (i: any, o: any) => { o.text += word } })"
PLAIN = HOOK.replace(": any", "")
JSX = (
    "/** @jsxRuntime classic @jsx h */\nconst h = (tag, given) => given.word\nconst word = <own word='!' />\n"
)
ENDINGS = {
    ".ts": f"const word: string = '!'; export const P = {HOOK}",
    ".mts": f"const word: string = '!'; export const P = {HOOK}",
    ".cts": f"const word: string = '!'; module.exports = {{ P: {HOOK} }}",
    ".tsx": JSX.replace("given)", "given: { word: string })") + f"export const P = {HOOK}",
    ".jsx": JSX + f"export const P = {PLAIN}",
}


@pytest.mark.usefixtures("program")
@pytest.mark.parametrize("ending", ENDINGS)
async def test_a_plugin_that_is_named_may_have_each_ending_that_bun_takes(
    house: Machine, write: Write, kept: Path, ending: str
) -> None:
    house.environment |= {"XDG_CACHE_HOME": str(kept)}  # type: ignore[operator]
    house.settings(plugin=[str(write(ENDINGS[ending], f"own{ending}", "own"))])
    house.says("== turn\ntext: hello\n")
    door = await house.open()
    assert not door.runtime.notices
    assert said(await door.ask(await door.session(), "hi")) == "hello!"


NEEDS_BUN = """
import { Glob } from "bun"
import { dlopen } from "bun:ffi"
const text = await Bun.file("notes.txt").text()
export const P = async () => ({ 'text.complete': async (input, output) => {
  output.text += `${text}${new Glob("*.txt").match("a.txt")} ${typeof dlopen}`
} })
"""


async def test_a_plugin_that_needs_bun_runs_by_one_of_npms_which_is_installed_once(
    house: Machine, write: Write, kept: Path, tmp_path: Path
) -> None:
    path = f"{programs(tmp_path, 'node', 'npm')}:/usr/bin:/bin"
    assert shutil.which("bun", path=path) is None
    house.environment |= {"XDG_CACHE_HOME": str(kept), "PATH": path}  # type: ignore[operator]
    (house.folder / "notes.txt").write_text("! ")
    write(HOOK.replace(": any", "").replace("word", "'?'").join(["export const Q = ", ""]), "before.js")
    write(NEEDS_BUN)
    asked = []

    async def confirm(step: str) -> bool:
        asked.append(step)
        return True

    options = Options(house.folder, house.environment, {"model": "scripted/x"}, confirm=confirm)
    for _ in range(2):
        house.says("== turn\ntext: hello\n")
        async with await Runtime.open(options) as runtime:
            assert not runtime.notices
            assert {one.host.runs for one in runtime.instance.plugins.loaded} == {"bun"}
            session = (await runtime.session.create(SessionBody())).id
            answer = await runtime.session.prompt(session, PromptBody.text("hi"))
            assert said(answer) == "hello?! true function"
    assert len(asked) == 1
