"""Skills: folders with a ``SKILL.md``, listed to the model by name and description, read when one is needed.

They stand in ``skill(s)/`` of the configuration folders and in ``.claude/skills`` and ``.agents/skills`` of the home
folder and of each folder from the worktree down to the directory. Of two with one name the later counts: the
project's over the home's, the inner folder's over the outer's.
"""

import os
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Final

import msgspec

from instar.definitions import claude
from instar.definitions.markdown import (
    DefinitionError,
    DefinitionFolder,
    definition_folders,
    find,
    load,
    plugin_source,
    unknown_field,
)
from instar.git.project import Project
from instar.message import Rule
from instar.settings.load import Settings, folder_chain
from instar.settings.paths import Paths
from instar.settings.plugin_folders import PluginFolder
from instar.settings.trust import Trust
from instar.wire.front_matter import FrontMatter

NAME: Final = "SKILL.md"
LONGEST_NAME: Final = 64
LONGEST_DESCRIPTION: Final = 1024
"""Characters, as the format's own rules have it."""
MOST_FILES: Final = 50
"""Files of a skill that the model is told of."""

_FOLDERS: Final = ("skill", "skills")
_NEIGHBOURS: Final = (".claude", ".agents")
_FIELDS: Final = (
    *("name", "description", "license", "compatibility", "metadata", "allowed-tools"),
    # Claude Code's.
    *(
        "argument-hint",
        "arguments",
        "disable-model-invocation",
        "user-invocable",
        "model",
        "effort",
        "context",
    ),
    *("agent", "hooks", "paths", "shell", "disallowed-tools", "when_to_use", "version"),
)


class Skill(msgspec.Struct, frozen=True):
    """One skill: `path` is its ``SKILL.md``, `text` what stands below the front matter.

    `listed`: the model may load it; `invocable`: a person may, as a command. `hint` says what to write behind its name.
    `grants` are what need not be asked while it is at work: only those of the person and of plugins have such.
    """

    name: str
    description: str
    path: Path
    text: str
    trusted: bool = True
    listed: bool = True
    invocable: bool = True
    hint: str = ""
    model: str | None = None
    grants: tuple[Rule, ...] = ()

    @property
    def whole(self) -> str:
        """What the skill says, where it stands, and which other files it brings."""
        text = f"This skill's folder: {self.path.parent}"
        others = ", ".join(islice(_beside(self.path), MOST_FILES)) if self.path.name == NAME else ""
        if others:
            text += f"\nIts other files, to be read when they are needed: {others}"
        return f"{text}\n\n{self.text.strip()}"


def _beside(path: Path) -> Iterator[str]:
    """Yield the other files of a skill's folder. Links are not followed: what they lead to may be private."""
    for at, folders, names in os.walk(path.parent):
        folders[:] = sorted(name for name in folders if name not in (".git", "__pycache__"))
        here = Path(at).relative_to(path.parent)
        yield from (str(here / name) for name in sorted(names) if here / name != Path(path.name))


def skill_rules(skills: Mapping[str, Skill]) -> list[Rule]:
    """Return the rules that let an agent read what trusted skills bring along, also outside of the project."""
    return [
        Rule(permission="external_directory", pattern=f"{skill.path.parent}/*", action="allow")
        for skill in skills.values()
        if skill.trusted
    ]


def read_skills(
    read: Settings, project: Project, paths: Paths, trust: Trust, before: Mapping[str, Skill] | None = None
) -> tuple[dict[str, Skill], list[str]]:
    """Return the skills of every folder by their sorted names, and the mistakes of those that were left out.

    A trusted file with a mistake that is one of the skills of `before` holds as it did there.
    """
    mistakes: list[str] = []
    found: dict[str, Skill] = {}
    for plugin in read.plugin_folders:
        found |= plugin_skills(plugin, mistakes)
    for source in _sources(read, project, paths, trust):
        for _, path in find(source, _FOLDERS, lambda name: name == NAME):
            try:
                skills = [_skill(path, load(path, source.view), source)]
            except DefinitionError as error:
                mistakes.append(str(error))
                known = before.values() if before is not None and source.trusted else ()
                skills = [one for one in known if one.path == path and one.trusted]
            found.update((skill.name, skill) for skill in skills)
    return dict(sorted(found.items())), mistakes


def _sources(read: Settings, project: Project, paths: Paths, trust: Trust) -> Iterator[DefinitionFolder]:
    own = definition_folders(read, project, paths, trust)
    for neighbour in _NEIGHBOURS:
        yield DefinitionFolder(paths.home / neighbour, "global", True, paths.home)
    yield from (source for source in own if source.scope == "global")
    root = project.worktree if project.vcs else project.directory
    home = paths.home.resolve()  # which is the person's own
    for folder in (one for one in folder_chain(project.directory, project) if one != home):
        for neighbour in _NEIGHBOURS:
            trusted, view = trust.is_trusted(folder), read.view(folder)
            yield DefinitionFolder(folder / neighbour, "project", trusted, root, view)
    yield from (source for source in own if source.scope != "global")


def plugin_skills(plugin: PluginFolder, mistakes: list[str]) -> dict[str, Skill]:
    """Return the skills of a plugin, and its commands, which are skills that only a person calls, by name."""
    found: dict[str, Skill] = {}
    source = plugin_source(plugin)
    for name, path in _named(plugin, source):
        try:
            skill = _skill(path, load(path), source)
        except DefinitionError as error:
            mistakes.append(str(error))
            continue
        name = f"{plugin.name}:{name}"
        found[name] = msgspec.structs.replace(skill, name=name, text=plugin.expanded(skill.text))
    return found


def _named(plugin: PluginFolder, source: DefinitionFolder) -> Iterator[tuple[str, Path]]:
    """The files of a plugin's skills and commands, by the names that they have there."""
    for top, path in find(source, plugin.places("commands"), lambda name: name.endswith(".md")):
        yield path.relative_to(top).with_suffix("").as_posix().replace("/", ":"), path
    for top, path in find(source, plugin.places("skills"), lambda name: name == NAME):
        if len(path.relative_to(top).parts) <= 2:
            yield path.parent.name, path


def _skill(path: Path, found: FrontMatter, source: DefinitionFolder) -> Skill:
    if source.plugin is None:
        unknown_field(path, found, _FIELDS)
    name = _text(path, found, "name", LONGEST_NAME) or path.parent.name
    description = _text(path, found, "description", LONGEST_DESCRIPTION)
    is_command = path.name != NAME
    if is_command and not description:
        description = next((line.strip("# ") for line in found.body.splitlines() if line.strip()), name)[:200]
    if not description:
        text = "expected a description: the model chooses a skill by it"
        raise DefinitionError(path, found.line(("description",)), "description", text)
    said, invocable = found.data, found.data.get("user-invocable") is not False
    # A repository's may not widen what the person granted, also where they trusted it.
    own = source.scope != "project"
    return Skill(
        *(
            name,
            description,
            path,
            found.body.replace("${CLAUDE_SKILL_DIR}", str(path.parent)),
            source.trusted,
        ),
        listed=said.get("disable-model-invocation") is not True and not (is_command and invocable),
        invocable=invocable,
        hint=_hint(said.get("argument-hint")),
        model=claude.named_model(said.get("model")) if own else None,
        grants=claude.granted(said.get("allowed-tools")) if own else (),
    )


def _hint(value: Any) -> str:
    """What to write behind a command; ``[issue]`` without quotes is a list of YAML."""
    text = f"[{', '.join(map(str, value))}]" if isinstance(value, list) else str(value or "")
    return " ".join(text.split())[:LONGEST_DESCRIPTION]


def _text(path: Path, found: FrontMatter, field: str, longest: int) -> str:
    """Return a field's text on one line; empty without one."""
    value = found.data.get(field)
    if value is None:
        return ""
    line = found.line((field,))
    if isinstance(value, dict | list):
        raise DefinitionError(path, line, field, "expected a text")
    text = " ".join(found.written[(field,)].split())
    if len(text) > longest:
        raise DefinitionError(path, line, field, f"expected at most {longest} characters, found {len(text)}")
    return text
