"""Skills: folders with a ``SKILL.md``, listed to the model by name and description, read when one is needed.

They stand in ``skill(s)/`` of the configuration folders and in ``.claude/skills`` and ``.agents/skills`` of the home
folder and of each folder from the worktree down to the directory. Of two with one name the later counts: the
project's over the home's, the inner folder's over the outer's.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from instar.definition import Mistake, MistakeFound, Source, find, load, sources, unknown_field
from instar.front_matter import FrontMatter
from instar.message import Rule
from instar.paths import Paths
from instar.project import Project
from instar.settings import Settings
from instar.trust import Trust

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


class Skills:
    """Every skill of an instance."""

    def __init__(self, found: Iterable[Skill] = ()) -> None:
        """Keep the skills; of two with one name the later counts."""
        self._skills = {skill.name: skill for skill in found}

    def all(self) -> list[tuple[str, str]]:
        """Return each skill's name and description, by name."""
        return [(name, self._skills[name].description) for name in sorted(self._skills)]

    def get(self, name: str) -> str:
        """Return what a skill says, and where its other files stand. Raises `KeyError`."""
        skill = self._skills[name]
        return f"This skill's folder: {skill.path.parent}\n\n{skill.text.strip()}"

    def find(self, name: str) -> Skill:
        """Return a skill. Raises `KeyError`."""
        return self._skills[name]

    @property
    def by_name(self) -> Mapping[str, Skill]:
        """Every skill by its name."""
        return self._skills

    def of(self, path: Path) -> list[Skill]:
        """Return the skill of a file, if it is trusted; a skill that another one hides is not known."""
        return [one for one in self._skills.values() if one.path == path and one.trusted]

    def rules(self) -> list[Rule]:
        """Return the rules that let an agent read what trusted skills bring along, also outside of the project."""
        return [
            Rule(permission="external_directory", pattern=f"{skill.path.parent}/*", action="allow")
            for skill in self._skills.values()
            if skill.trusted
        ]


def read_skills(
    read: Settings, project: Project, paths: Paths, trust: Trust, before: Skills | None = None
) -> tuple[Skills, list[Mistake]]:
    """Return the skills of every folder, and the mistakes of those that were left out.

    A trusted file with a mistake that is one of the skills of `before` holds as it did there.
    """
    mistakes: list[Mistake] = []
    found: list[Skill] = []
    for source in _sources(read, project, paths, trust):
        for _, path in find(source, _FOLDERS, lambda name: name == NAME):
            try:
                found.append(_skill(path, load(path), source.trusted))
            except MistakeFound as error:
                mistakes.append(error.mistake)
                found += [] if before is None or not source.trusted else before.of(path)
    return Skills(found), mistakes


def _sources(read: Settings, project: Project, paths: Paths, trust: Trust) -> Iterator[Source]:
    own = sources(read, project, paths, trust)
    for neighbour in _NEIGHBOURS:
        yield Source(paths.home / neighbour, "global", True, paths.home)
    yield from (source for source in own if source.scope == "global")
    root = project.worktree if project.vcs else project.directory
    for folder in _chain(project, paths.home):
        for neighbour in _NEIGHBOURS:
            yield Source(folder / neighbour, "project", trust.is_trusted(folder), root)
    yield from (source for source in own if source.scope != "global")


def _chain(project: Project, home: Path) -> list[Path]:
    """The folders from the worktree down to the directory, without the home folder: that is the person's own."""
    folders = [project.directory]
    if project.vcs and project.directory.is_relative_to(project.worktree):
        folders += [one for one in project.directory.parents if one.is_relative_to(project.worktree)]
    return [folder for folder in reversed(folders) if folder != home.resolve()]


def _skill(path: Path, found: FrontMatter, trusted: bool) -> Skill:
    unknown_field(path, found, _FIELDS)
    name = _text(path, found, "name", LONGEST_NAME) or path.parent.name
    description = _text(path, found, "description", LONGEST_DESCRIPTION)
    if not description:
        text = "expected a description: the model chooses a skill by it"
        raise MistakeFound(Mistake(path, found.line(("description",)), "description", text))
    return Skill(name, description, path, found.body, trusted)


def _text(path: Path, found: FrontMatter, field: str, longest: int) -> str:
    """A field's text on one line, as it was written; empty where there is none."""
    value = found.data.get(field)
    if value is None:
        return ""
    line = found.line((field,))
    if isinstance(value, dict | list):
        raise MistakeFound(Mistake(path, line, field, "expected a text"))
    text = " ".join(found.written[(field,)].split())
    if len(text) > longest:
        raise MistakeFound(
            Mistake(path, line, field, f"expected at most {longest} characters, found {len(text)}")
        )
    return text
