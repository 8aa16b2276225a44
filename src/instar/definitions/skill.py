"""Skills: folders with a ``SKILL.md``, listed to the model by name and description, read when one is needed.

They stand in ``skill(s)/`` of the configuration folders and in ``.claude/skills`` and ``.agents/skills`` of the home
folder and of each folder from the worktree down to the directory. Of two with one name the later counts: the
project's over the home's, the inner folder's over the outer's.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from instar.definitions.markdown import (
    DefinitionError,
    DefinitionFolder,
    definition_folders,
    find,
    load,
    unknown_field,
)
from instar.git.project import Project
from instar.message import Rule
from instar.settings.load import Settings, folder_chain
from instar.settings.paths import Paths
from instar.settings.trust import Trust
from instar.wire.front_matter import FrontMatter

NAME: Final = "SKILL.md"
LONGEST_NAME: Final = 64
LONGEST_DESCRIPTION: Final = 1024
"""Characters, as the format's own rules have it."""

_FOLDERS: Final = ("skill", "skills")
_NEIGHBOURS: Final = (".claude", ".agents")
_FIELDS: Final = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")


class Skill(msgspec.Struct, frozen=True):
    """One skill: `path` is its ``SKILL.md``, `text` what stands below the front matter."""

    name: str
    description: str
    path: Path
    text: str
    trusted: bool = True

    @property
    def whole(self) -> str:
        """What the skill says, and where its other files stand."""
        return f"This skill's folder: {self.path.parent}\n\n{self.text.strip()}"


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
    for source in _sources(read, project, paths, trust):
        for _, path in find(source, _FOLDERS, lambda name: name == NAME):
            try:
                skills = [_skill(path, load(path, source.view), source.trusted)]
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


def _skill(path: Path, found: FrontMatter, trusted: bool) -> Skill:
    unknown_field(path, found, _FIELDS)
    name = _text(path, found, "name", LONGEST_NAME) or path.parent.name
    description = _text(path, found, "description", LONGEST_DESCRIPTION)
    if not description:
        text = "expected a description: the model chooses a skill by it"
        raise DefinitionError(path, found.line(("description",)), "description", text)
    return Skill(name, description, path, found.body, trusted)


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
