"""The command that adds what an extra brings to the environment in which instar runs."""

import importlib.util
import re
import shlex
import sys
from pathlib import Path


def installing(extra: str) -> str:
    """Return the command that installs the packages of an extra of instar's.

    The packages are named, not the extra: instar itself may have come from a folder that is no index's.
    """
    # Start-up time: the module costs 6 ms, and few runs lack a package.
    from importlib import metadata

    mark = re.compile(rf"""extra == ["']{extra}["']""")
    wanted = [one.partition(";")[0].strip() for one in metadata.requires("instar") or () if mark.search(one)]
    if (Path(sys.prefix) / "pipx_metadata.json").exists():
        command = ["pipx", "inject", "instar"]
    elif importlib.util.find_spec("pip") is not None:
        command = [sys.executable, "-m", "pip", "install"]
    else:
        # The environments of uv have no pip.
        command = ["uv", "pip", "install", "--python", sys.executable]
    return shlex.join([*command, *wanted])
