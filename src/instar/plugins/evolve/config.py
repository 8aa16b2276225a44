"""evolve's block of ``instar.json``: how its gate judges, for files that only a person may change.

What the workspace's own ``config/evolve.jsonc`` may say is in `instar.plugins.evolve.settings`. Nothing here
may be said there: the agent may write the workspace.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

Variables = list[str]


class EvolveConfig(msgspec.Struct, frozen=True):
    """The ``evolve`` block. `replay_seconds` in seconds, the other numbers are counts.

    ``tighter`` tells the core which way a value guards more, so that a folder which the person does not
    vouch for may go that way and no other: a list names the values from loose to tight, ``less`` and ``more``
    compare numbers, ``fewer`` and ``added`` lists. What has none may not be said by such a folder at all.
    The descriptions are those of the JSON Schema and of docs/reference/guards.md.
    """

    sandbox: Annotated[
        Literal["auto", "require"],
        Meta(
            description="`require`: without a sandbox no change is validated, so none goes live.",
            extra={"tighter": ["auto", "require"]},
        ),
    ] = "auto"
    unsafe: Annotated[
        bool,
        Meta(
            description="Whether changes may go live on a machine that can neither shield nor sandbox.",
            extra={"tighter": [True, False]},
        ),
    ] = False
    own_scripts: Annotated[
        Literal["free", "shield"],
        Meta(
            description="How hook scripts run that you wrote: behind the shield, or as you.",
            extra={"tighter": ["free", "shield"]},
        ),
    ] = "shield"
    loads: Annotated[
        list[str],
        Meta(
            description="Entries of the workspace that tests may load although no commit of yours holds them.",
            extra={"tighter": "fewer"},
        ),
    ] = []
    env: Annotated[
        Variables,
        Meta(
            description="Variables that hook scripts get although they look like secrets.",
            extra={"tighter": "fewer"},
        ),
    ] = []
    replay: Annotated[
        Literal["report", "strict"],
        Meta(
            description="`strict`: a change that answers a past input otherwise is refused; `report`: it is told.",
            extra={"tighter": ["report", "strict"]},
        ),
    ] = "report"
    replay_seconds: Annotated[
        int, Meta(ge=1, le=600, description="Seconds that the replay of one change may take in all.")
    ] = 10
    replay_records: Annotated[
        int, Meta(ge=0, le=10_000, description="Past inputs that are kept for each hook; 0: none.")
    ] = 50
    score_runs: Annotated[
        int,
        Meta(ge=1, le=4096, description="Pairs of scores that an eval may take where chance plays a part."),
    ] = 512
    score_seconds: Annotated[
        int, Meta(ge=1, le=86_400, description="Seconds that all evals of one change may take.")
    ] = 60
    score_tokens: Annotated[
        int, Meta(ge=0, description="Tokens that all evals of one change may use; 0: any number.")
    ] = 0
    probation_failures: Annotated[
        int,
        Meta(
            ge=0,
            description="New failures on probation after which one more takes the change back.",
            extra={"tighter": "less"},
        ),
    ] = 3
    probation_calls: Annotated[
        int,
        Meta(
            ge=0,
            description="Calls for which a change is on probation; 0: it is not.",
            extra={"tighter": "more"},
        ),
    ] = 50
    create: Annotated[
        Literal["deny", "allow"],
        Meta(
            description="Whether the agent may add hook scripts and prompts that were not there.",
            extra={"tighter": ["allow", "deny"]},
        ),
    ] = "deny"
    frozen: Annotated[
        bool,
        Meta(description="Whether nothing is changed at all.", extra={"tighter": [False, True]}),
    ] = False
    pins: Annotated[
        list[str],
        Meta(
            description="Files of the workspace that the agent may not touch.",
            extra={"tighter": "added"},
        ),
    ] = []
    forget_days: Annotated[
        int,
        Meta(
            ge=0,
            le=365,
            description="Days without use after which what the agent made is proposed for removal; 0: never.",
        ),
    ] = 30
    half_life_days: Annotated[
        int,
        Meta(
            ge=0,
            le=365,
            description="Days after which what a change was accepted for counts half; 0: it never fades.",
        ),
    ] = 30
    remote: Annotated[
        str,
        Meta(description="The bare git repository that workers share the workspace by: a path or a URL."),
    ] = ""


def local(url: str) -> Path | None:
    """Return the folder that a repository's path or URL names on this machine; None for none."""
    path = url.removeprefix("file://")
    return Path(path) if path.startswith("/") else None


def read(config: Mapping[str, Any]) -> EvolveConfig:
    """Return the block as the merged settings (`PluginInput.config`) have it; the defaults where they have none.

    The core has held each file to `EvolveConfig`; a plugin's ``config`` hook may still have left something else:
    then this raises `msgspec.ValidationError`.
    """
    return msgspec.convert(config.get("evolve", {}), EvolveConfig)
