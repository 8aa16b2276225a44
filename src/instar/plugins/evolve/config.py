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
            description="`require`: on a machine without a sandbox no change goes live.",
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
            description="How your own hook scripts run: `shield`: behind the shield; `free`: as you.",
            extra={"tighter": ["free", "shield"]},
        ),
    ] = "shield"
    loads: Annotated[
        list[str],
        Meta(
            description="Files and folders of the workspace that tests may load without a commit of yours.",
            extra={"tighter": "fewer"},
        ),
    ] = []
    env: Annotated[
        Variables,
        Meta(
            description="Variables that hook scripts get even if they look like secrets.",
            extra={"tighter": "fewer"},
        ),
    ] = []
    replay: Annotated[
        Literal["report", "strict"],
        Meta(
            description="What follows if a change answers a past input differently: `report` it, or (`strict`) refuse.",
            extra={"tighter": ["report", "strict"]},
        ),
    ] = "report"
    replay_seconds: Annotated[
        int, Meta(ge=1, le=600, description="Seconds that the replay of one change may take.")
    ] = 10
    replay_records: Annotated[
        int, Meta(ge=0, le=10_000, description="Past inputs kept for each hook; 0: none.")
    ] = 50
    score_runs: Annotated[
        int,
        Meta(ge=1, le=4096, description="Pairs of scores that an eval with random results may take."),
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
            description="New failures allowed on probation; one more rolls the change back.",
            extra={"tighter": "less"},
        ),
    ] = 3
    probation_calls: Annotated[
        int,
        Meta(
            ge=0,
            description="Calls that probation of a change lasts; 0: no probation.",
            extra={"tighter": "more"},
        ),
    ] = 50
    create: Annotated[
        Literal["deny", "allow"],
        Meta(
            description="Whether the agent may add new hook scripts and prompts.",
            extra={"tighter": ["allow", "deny"]},
        ),
    ] = "deny"
    frozen: Annotated[
        bool,
        Meta(description="Whether evolve refuses every change.", extra={"tighter": [False, True]}),
    ] = False
    pins: Annotated[
        list[str],
        Meta(
            description="Files of the workspace that the agent may not change.",
            extra={"tighter": "added"},
        ),
    ] = []
    forget_days: Annotated[
        int,
        Meta(
            ge=0,
            le=365,
            description="Days without use after which evolve proposes to remove what the agent made; 0: never.",
        ),
    ] = 30
    half_life_days: Annotated[
        int,
        Meta(
            ge=0,
            le=365,
            description="Days after which the evidence for a change counts half; 0: it always counts in full.",
        ),
    ] = 30
    remote: Annotated[
        str,
        Meta(description="The bare git repository by which workers share the workspace: a path or a URL."),
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
