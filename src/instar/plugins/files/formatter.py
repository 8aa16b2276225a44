"""The plugin `formatter`: runs the formatters of a file that a tool wrote. Names and conditions are opencode's.

The setting `formatter` is true, or a map of formatters by name: `disabled`, `command` (``$FILE`` stands for the file),
`environment`, `extensions`. What they change belongs to the tool's call: its diff has it, and the model reads it.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from instar.plugin import Hooks, PluginInput, Value, View, points, process, wire
from instar.plugins.files.programs import Programs

log = logging.getLogger("instar.formatter")

id = "formatter"  # noqa: A001 - the name that a V1 plugin module must export

TIMEOUT: Final = 10.0
"""Seconds that one formatter may take for a file; it is ended then."""
_PRINTED: Final = 4096
"""Bytes of what a formatter prints that are kept to say why it failed."""
_WEB: Final = (
    *(
        ".js",
        ".jsx",
        ".mjs",
        ".cjs",
        ".ts",
        ".tsx",
        ".mts",
        ".cts",
        ".html",
        ".htm",
        ".css",
        ".scss",
        ".sass",
    ),
    *(".less", ".vue", ".svelte", ".json", ".jsonc", ".yaml", ".yml", ".toml", ".xml", ".md", ".mdx"),
    *(".graphql", ".gql"),
)
_RUBY: Final = (".rb", ".rake", ".gemspec", ".ru")
_C: Final = (".c", ".cc", ".cpp", ".cxx", ".c++", ".h", ".hh", ".hpp", ".hxx", ".h++", ".ino", ".C", ".H")
_SAME: Final = ("ruff", "uv")
"""One formatter under two names: who disables one of them wants neither."""


class Formatter(msgspec.Struct, frozen=True):
    """A formatter: the files that it is for, its command, and whether the project uses it (`used`)."""

    extensions: Sequence[str]
    command: Sequence[str]
    environment: Mapping[str, str] = {}
    used: Callable[[Programs], bool] = lambda programs: True
    own: bool = False
    """True for a command of the settings."""

    def words(self, programs: Programs) -> list[str] | None:
        """Return its command as it is started; None where it is not there, or not used."""
        if not programs.trusted or not self.used(programs):
            return None
        if self.own:
            return programs.words(self.command)
        program = programs.find(self.command[0])
        return None if program is None else [program, *self.command[1:]]


def _has(*names: str) -> Callable[[Programs], bool]:
    return lambda programs: any(True for _ in programs.texts(*names))


def _package(name: str) -> Callable[[Programs], bool]:
    return lambda programs: programs.depends(name, "package.json", "dependencies", "devDependencies")


def _ruff(programs: Programs) -> bool:
    if any(True for _ in programs.texts("ruff.toml", ".ruff.toml")):
        return True
    return any("ruff" in text for text in programs.texts("pyproject.toml", "requirements.txt", "Pipfile"))


def _uv(programs: Programs) -> bool:
    return RUFF.words(programs) is None


def _pint(programs: Programs) -> bool:
    return programs.depends("laravel/pint", "composer.json", "require", "require-dev")


RUFF: Final = Formatter((".py", ".pyi"), ("ruff", "format", "$FILE"), used=_ruff)
FORMATTERS: Final[Mapping[str, Formatter]] = {
    "gofmt": Formatter((".go",), ("gofmt", "-w", "$FILE")),
    "mix": Formatter(
        (".ex", ".exs", ".eex", ".heex", ".leex", ".neex", ".sface"), ("mix", "format", "$FILE")
    ),
    "prettier": Formatter(_WEB, ("prettier", "--write", "$FILE"), used=_package("prettier")),
    "oxfmt": Formatter(_WEB[:8], ("oxfmt", "$FILE"), used=_package("oxfmt")),
    "biome": Formatter(
        _WEB,
        ("biome", "format", "--write", "$FILE"),
        used=_has("biome.json", "biome.jsonc", ".biome.json", ".biome.jsonc"),
    ),
    "zig": Formatter((".zig", ".zon"), ("zig", "fmt", "$FILE")),
    "clang-format": Formatter(_C, ("clang-format", "-i", "$FILE"), used=_has(".clang-format")),
    "ktlint": Formatter((".kt", ".kts"), ("ktlint", "-F", "$FILE")),
    "ruff": RUFF,
    "air": Formatter((".R",), ("air", "format", "$FILE")),
    "uv": Formatter((".py", ".pyi"), ("uv", "format", "--", "$FILE"), used=_uv),
    "rubocop": Formatter(_RUBY, ("rubocop", "--autocorrect", "$FILE")),
    "standardrb": Formatter(_RUBY, ("standardrb", "--fix", "$FILE")),
    "htmlbeautifier": Formatter((".erb", ".html.erb"), ("htmlbeautifier", "$FILE")),
    "dart": Formatter((".dart",), ("dart", "format", "$FILE")),
    "ocamlformat": Formatter((".ml", ".mli"), ("ocamlformat", "-i", "$FILE"), used=_has(".ocamlformat")),
    "terraform": Formatter((".tf", ".tfvars"), ("terraform", "fmt", "$FILE")),
    "latexindent": Formatter((".tex",), ("latexindent", "-w", "-s", "$FILE")),
    "gleam": Formatter((".gleam",), ("gleam", "format", "$FILE")),
    "shfmt": Formatter((".sh", ".bash"), ("shfmt", "-w", "$FILE")),
    "nixfmt": Formatter((".nix",), ("nixfmt", "$FILE")),
    "rustfmt": Formatter((".rs",), ("rustfmt", "$FILE")),
    "pint": Formatter((".php",), ("pint", "$FILE"), used=_pint),
    "ormolu": Formatter((".hs",), ("ormolu", "-i", "$FILE")),
    "cljfmt": Formatter((".clj", ".cljs", ".cljc", ".edn"), ("cljfmt", "fix", "--quiet", "$FILE")),
    "dfmt": Formatter((".d",), ("dfmt", "-i", "$FILE")),
}
"""opencode's formatters, in the order in which they run."""


def configured(setting: Any) -> dict[str, Formatter]:
    """Return the formatters that the setting leaves, by name: opencode's with what it says of them, and its own."""
    said = setting if isinstance(setting, dict) else {}
    off = {name for name, one in said.items() if one.get("disabled")}
    off |= {*_SAME} if off & {*_SAME} else set()
    found = dict(FORMATTERS)
    for name, one in said.items():
        own = {"command": one["command"], "own": True, "used": lambda _: True} if one.get("command") else {}
        more = {key: one[key] for key in ("extensions", "environment") if one.get(key) is not None}
        found[name] = msgspec.structs.replace(found.get(name, _NONE), **own, **more)
    return {name: one for name, one in found.items() if name not in off and one.command}


_NONE: Final = Formatter((), ())


async def server(input: PluginInput, options: wire.Plain | None = None) -> Hooks:  # noqa: A002 - opencode's name
    """Format what tools write, where the setting `formatter` switches it on."""
    if (setting := input.config.get(id)) in (None, False):
        input.registry.stands_idle(f"the setting {id} does not switch it on")
        return {}
    formatters, programs = configured(setting), Programs(input)

    async def written(given: points.FilesWrittenInput, output: points.FilesWrittenOutput) -> None:
        for file in map(Path, given.files):
            for name, one in formatters.items():
                if programs.concerns(file, one.extensions) and (words := one.words(programs)):
                    await _format(name, one, [word.replace("$FILE", str(file)) for word in words], programs)

    def status(session_id: str) -> list[wire.Plain]:
        return [
            {"name": name, "extensions": list(one.extensions), "enabled": one.words(programs) is not None}
            for name, one in formatters.items()
        ]

    input.registry.add_view(View(id, "The formatters.", {"status": Value(doc="All of them.", read=status)}))
    # Each formatter has its own limit.
    return {"files.written": written, "timeout": None}


async def _format(name: str, formatter: Formatter, words: list[str], programs: Programs) -> None:
    """Run a formatter. One that fails leaves the file, and one line in the log."""
    environment = programs.environment(formatter.environment)
    try:
        done = await programs.children.run(
            words, cwd=programs.directory, env=environment, timeout=TIMEOUT, limit=_PRINTED, merge=True
        )
    except process.ProcessError as error:
        log.warning("formatter=failed name=%s reason=%s", name, error)
        return
    if done.timed_out or done.code:
        lines = done.stdout.decode(errors="replace").strip().splitlines()
        why = f"it took more than {TIMEOUT:g} s" if done.timed_out else f"exit code {done.code}"
        log.warning("formatter=failed name=%s file=%s reason=%s: %s", name, words[-1], why, lines[-1:])
