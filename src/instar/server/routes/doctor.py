"""instar's own operations on how a folder and this machine stand."""

import sys
from typing import Final

import msgspec

from instar.api.operation import operation
from instar.api.stats import DoctorReport, ShieldState
from instar.git import clean_environment
from instar.plugin import Invalid
from instar.process import ProcessError
from instar.server.call import Call
from instar.session.instance import Instance

_COMMAND: Final = [sys.executable, "-P", "-m", "instar", "doctor", "--json"]
"""A child, since it looks as a new run would; ``-P``: the folder's own modules are not imported."""
_PATIENCE: Final = 30.0
"""Seconds that it may take."""


class DoctorRoutes:
    """What is missing, and how far the model's commands are confined."""

    @operation("GET", "/instar/doctor", "instar.doctor")
    async def doctor(self, call: Call, instance: Instance) -> DoctorReport:
        """Check everything that instar needs in the directory, as ``instar doctor``, and say what to do."""
        environment = clean_environment(instance.environment)
        try:
            done = await call.attended(
                instance.processes.run(_COMMAND, cwd=instance.directory, env=environment, timeout=_PATIENCE)
            )
            return msgspec.json.decode(done.stdout, type=DoctorReport)
        except (ProcessError, msgspec.DecodeError) as error:
            raise Invalid(f"instar doctor did not answer: {error}") from error

    @operation("GET", "/instar/shield", "instar.shield")
    async def shield(self, instance: Instance) -> ShieldState:
        """Tell how far the model's commands are confined in the directory."""
        return ShieldState((await instance.children.level()).name, instance.children.at_most)
