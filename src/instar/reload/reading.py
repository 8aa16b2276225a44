"""What an instance reads of files: its settings, the definitions in Markdown, its skills and tools.

The same for the first time and for each time after that; then a file with a mistake holds as it did before.
"""

from pathlib import Path

import msgspec

from instar import lineup
from instar.configured import Ground
from instar.definition import complete
from instar.mcp import ASK
from instar.message import Rule
from instar.paths import Paths
from instar.plugin.custom import SCRIPTS, load_tools, tool_files, tools_of
from instar.plugin.door import Loaded
from instar.plugin.load import Mark, Spec, digest_of_files
from instar.plugin.locate import TOOLS
from instar.project import Project
from instar.settings import Settings, read_settings
from instar.skill import Skills, read_skills
from instar.surroundings import Options
from instar.trust import Trust


class Reading(msgspec.Struct, frozen=True):
    """What was read. `settings` are those before plugins changed them; `problems` are one-line sentences."""

    settings: Settings
    skills: Skills
    ground: Ground
    problems: list[str]


class Tools(msgspec.Struct, frozen=True):
    """The tools of the configuration folders in Python, None where there are none; a sentence for each file left out.

    `scripts` are the files in JavaScript that may run: they are loaded with the plugins, and before them.
    """

    plugin: Loaded | None = None
    scripts: list[Spec] = []
    mark: Mark = Mark(TOOLS, {})
    notices: list[str] = []
    untrusted: list[str] = []


def read(
    options: Options, project: Project, paths: Paths, trust: Trust, before: Reading | None = None
) -> Reading:
    """Read everything. Raises what reading settings raises; a mistake in a definition is one of the `problems`."""
    flags = lineup.settings_of(options.flags)
    settings = read_settings(options.directory, project, paths, options.environment, flags, trust)
    layers = before.settings.layers if before else ()
    settings, mistakes = complete(settings, project, paths, trust, layers)
    skills, more = read_skills(settings, project, paths, trust, before.skills if before else None)
    own = [_saved_output(paths), *skills.rules(), ASK]
    problems = map(str, [*[one for one in settings.unknown if one.near], *mistakes, *more])
    ground = Ground(project, paths, options.environment, trust.is_trusted, own)
    return Reading(settings, skills, ground, [*problems, *filter(None, [trust.problem])])


def read_tools(folders: list[Path], paths: Paths, trust: Trust, before: Tools | None = None) -> Tools:
    """Load the tools of configuration folders, if their files are others than `before`: they run as code."""

    def trusted(folder: Path) -> bool:
        return folder in paths.config_homes or trust.is_trusted(folder.parent)

    # Every file, also those that may not run: what is left out is said.
    files = tool_files(folders)
    running = [path for path in files if trusted(path.parent.parent)]
    state = {"left out": [str(path) for path in files if path not in running]}
    scripts = [Spec(str(path), tools=True) for path in running if path.suffix in SCRIPTS]
    mark = Mark(TOOLS, state, digest_of_files(path for path in running if path.suffix not in SCRIPTS))
    if before is not None and before.mark == mark:
        return msgspec.structs.replace(before, scripts=scripts)
    found = load_tools(folders, trusted)
    tools = dict(found.tools)
    if before is not None and before.plugin is not None:
        for path in found.failed:
            tools = {**tools_of(path, before.plugin.hooks["tool"]), **tools}
    plugin = Loaded(TOOLS, {"tool": tools}) if tools else None
    return Tools(plugin, scripts, mark, found.notices, found.untrusted)


def _saved_output(paths: Paths) -> Rule:
    """Tool output that was cut is saved outside the project: the model may read it without asking."""
    return Rule(permission="external_directory", pattern=f"{paths.tool_output}/*", action="allow")
