"""The table of language servers that are looked for, with opencode's names, and the languages of files.

What opencode builds or downloads first (eslint, Java's, Elixir's) is here where its program has a name on ``PATH``.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from instar.plugin import wire
from instar.plugins.files.programs import Programs


class LanguageServer(msgspec.Struct, frozen=True):
    """A language server: the files that it is for, its commands of which the first that is there is started.

    Its folder (`root`) is the nearest around a file that holds one of `markers`, patterns of names; without one the
    instance's directory, but with `strict` none: it is not for that file then. Nor is it below one of `without`.
    `initialization` gives what it is told at its start, in its root.
    """

    extensions: Sequence[str]
    commands: Sequence[Sequence[str]]
    markers: Sequence[str] = ()
    strict: bool = False
    without: Sequence[str] = ()
    environment: Mapping[str, str] = {}
    initialization: Callable[[Programs, Path], wire.Plain] = lambda programs, root: {}
    own: bool = False
    """True for a command of the settings."""

    def root(self, programs: Programs, file: Path) -> Path | None:
        """Return the folder in which it works for a file, None where it is not for that."""
        around = list(programs.up(file.parent))
        if any(_holds(folder, self.without) for folder in around):
            return None
        found = next((folder for folder in around if _holds(folder, self.markers)), None)
        return found or (None if self.strict else programs.directory)

    def words(self, programs: Programs) -> list[str] | None:
        """Return its command as it is started, None where it is not there."""
        if not programs.trusted:
            return None
        if self.own:
            return programs.words(self.commands[0])
        for name, *rest in self.commands:
            if (program := programs.find(name)) is not None:
                return [program, *rest]
        return None


def _holds(folder: Path, names: Sequence[str]) -> bool:
    return any(next(folder.glob(name), None) is not None for name in names)


def _python(programs: Programs, root: Path) -> wire.Plain:
    """The project's interpreter, whose packages are meant."""
    variable = programs.environment({}).get("VIRTUAL_ENV")
    places = [*([Path(variable)] if variable else []), root / ".venv", root / "venv"]
    found = next((one for place in places if (one := place / "bin" / "python").exists()), None)
    return {} if found is None else {"python": {"pythonPath": str(found)}}


def _typescript(programs: Programs, root: Path) -> wire.Plain:
    """The project's TypeScript, if it has one."""
    name = "node_modules/typescript/lib/tsserver.js"
    found = next((one for folder in programs.up(root) if (one := folder / name).exists()), None)
    return {} if found is None else {"tsserver": {"path": str(found)}}


def _typescript_folder(programs: Programs, root: Path) -> wire.Plain:
    found = _typescript(programs, root)
    return {"typescript": {"tsdk": str(Path(found["tsserver"]["path"]).parent)}} if found else {}


def _server(files: str, commands: str, markers: str = "", **more: Any) -> LanguageServer:
    """A row of the table, in words; one command of several stands behind a bar."""
    known = [tuple(command.split()) for command in commands.split("|")]
    return LanguageServer(files.split(), known, markers.split(), **more)


_LOCKS: Final = "package-lock.json bun.lockb bun.lock pnpm-lock.yaml yarn.lock"
_DENO: Final = ("deno.json", "deno.jsonc")
_NATIVE: Final = "node_modules/typescript/lib/getExePath.js"
"""What TypeScript has from version 7 on, which is a language server itself and no `tsserver` any more."""
_SCRIPTS: Final = ".ts .tsx .js .jsx .mjs .cjs .mts .cts"
_BIOME: Final = f"{_SCRIPTS} .json .jsonc .vue .astro .svelte .css .graphql .gql .html"
_PYTHON: Final = "pyproject.toml setup.py setup.cfg requirements.txt Pipfile pyrightconfig.json"
_C: Final = ".c .cpp .cc .cxx .c++ .h .hpp .hh .hxx .h++"
_CLANG: Final = "compile_commands.json compile_flags.txt .clangd CMakeLists.txt Makefile"
_GRADLE: Final = "settings.gradle settings.gradle.kts build.gradle build.gradle.kts pom.xml"
_CLOJURE: Final = "deps.edn project.clj shadow-cljs.edn bb.edn build.boot"

SERVERS: Final[Mapping[str, LanguageServer]] = {
    "deno": _server(_SCRIPTS, "deno lsp", " ".join(_DENO), strict=True),
    "typescript": _server(
        _SCRIPTS,
        "typescript-language-server --stdio",
        _LOCKS,
        without=(*_DENO, _NATIVE),
        initialization=_typescript,
    ),
    "typescript-native": _server(_SCRIPTS, "tsc --lsp --stdio", _NATIVE, strict=True, without=_DENO),
    "vue": _server(".vue", "vue-language-server --stdio", _LOCKS),
    "oxlint": _server(
        f"{_SCRIPTS} .vue .astro .svelte", "oxc_language_server", ".oxlintrc.json", strict=True
    ),
    "biome": _server(
        _BIOME, "biome lsp-proxy --stdio", "biome.json biome.jsonc .biome.json .biome.jsonc", strict=True
    ),
    "gopls": _server(".go", "gopls", "go.work go.mod go.sum"),
    "ruby-lsp": _server(".rb .rake .gemspec .ru", "rubocop --lsp | ruby-lsp", "Gemfile"),
    "pyright": _server(
        ".py .pyi",
        "pyright-langserver --stdio | basedpyright-langserver --stdio",
        _PYTHON,
        initialization=_python,
    ),
    "elixir-ls": _server(".ex .exs", "elixir-ls | language_server.sh", "mix.exs mix.lock"),
    "zls": _server(".zig .zon", "zls", "build.zig"),
    "csharp": _server(".cs .csx", "csharp-ls", "*.slnx *.sln *.csproj global.json"),
    "fsharp": _server(".fs .fsi .fsx .fsscript", "fsautocomplete", "*.slnx *.sln *.fsproj global.json"),
    "sourcekit-lsp": _server(
        ".swift .objc .objcpp", "sourcekit-lsp", "Package.swift *.xcodeproj *.xcworkspace"
    ),
    "rust": _server(".rs", "rust-analyzer", "Cargo.toml Cargo.lock"),
    "clangd": _server(_C, "clangd --background-index --clang-tidy", _CLANG),
    "svelte": _server(".svelte", "svelteserver --stdio", _LOCKS),
    "astro": _server(".astro", "astro-ls --stdio", _LOCKS, initialization=_typescript_folder),
    "jdtls": _server(".java", "jdtls", f"{_GRADLE} .project .classpath"),
    "kotlin-ls": _server(".kt .kts", "kotlin-lsp --stdio", _GRADLE),
    "yaml-ls": _server(".yaml .yml", "yaml-language-server --stdio", _LOCKS),
    "lua-ls": _server(
        ".lua", "lua-language-server", ".luarc.json .luarc.jsonc .luacheckrc .stylua.toml stylua.toml"
    ),
    "php intelephense": _server(".php", "intelephense --stdio", "composer.json composer.lock .php-version"),
    "prisma": _server(".prisma", "prisma-language-server --stdio", "schema.prisma"),
    "dart": _server(".dart", "dart language-server --lsp", "pubspec.yaml analysis_options.yaml"),
    "ocaml-lsp": _server(".ml .mli", "ocamllsp", "dune-project dune-workspace .merlin opam"),
    "bash": _server(".sh .bash .zsh .ksh", "bash-language-server start"),
    "terraform": _server(".tf .tfvars", "terraform-ls serve", ".terraform.lock.hcl terraform.tfstate"),
    "texlab": _server(".tex .bib", "texlab", ".latexmkrc latexmkrc .texlabroot texlabroot"),
    "dockerfile": _server(".dockerfile Dockerfile", "docker-langserver --stdio"),
    "gleam": _server(".gleam", "gleam lsp", "gleam.toml"),
    "clojure-lsp": _server(".clj .cljs .cljc .edn", "clojure-lsp listen", _CLOJURE),
    "nixd": _server(".nix", "nixd", "flake.nix"),
    "tinymist": _server(".typ .typc", "tinymist", "typst.toml"),
    "haskell-language-server": _server(
        ".hs .lhs", "haskell-language-server-wrapper --lsp", "stack.yaml cabal.project hie.yaml *.cabal"
    ),
    "julials": LanguageServer(
        [".jl"],
        [("julia", "--startup-file=no", "--history-file=no", "-e", "using LanguageServer; runserver()")],
        ["Project.toml", "Manifest.toml"],
    ),
}
"""The servers by opencode's names."""

_LANGUAGES: Final[Mapping[str, str]] = {
    "typescript": ".ts .mts .cts",
    "typescriptreact": ".tsx",
    "javascript": ".js .mjs .cjs",
    "javascriptreact": ".jsx",
    "python": ".py .pyi",
    "ruby": ".rb .rake .gemspec .ru",
    "c": ".c .h",
    "cpp": ".cpp .cc .cxx .c++ .hpp .hh .hxx .h++",
    "rust": ".rs",
    "elixir": ".ex .exs",
    "csharp": ".cs .csx",
    "fsharp": ".fs .fsi .fsx .fsscript",
    "kotlin": ".kt .kts",
    "yaml": ".yaml .yml",
    "shellscript": ".sh .bash .zsh .ksh",
    "clojure": ".clj .cljs .cljc .edn",
    "haskell": ".hs .lhs",
    "julia": ".jl",
    "ocaml": ".ml .mli",
    "terraform": ".tf",
    "terraform-vars": ".tfvars",
    "latex": ".tex",
    "bibtex": ".bib",
    "typst": ".typ .typc",
    "zig": ".zig .zon",
    "graphql": ".graphql .gql",
}
"""The protocol's names of languages, with the ends of their files, where an end is not the name itself."""


def language(file: Path) -> str:
    """Return the protocol's name of a file's language."""
    known = (name for name, ends in _LANGUAGES.items() if file.suffix in ends.split())
    return next(known, file.suffix.removeprefix(".") or file.name.lower())
