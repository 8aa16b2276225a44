"""The routes that end instances, and those of what instar leaves to others: accounts, upgrades."""

from instar.api.instance import (
    ConsoleOrgs,
    ConsoleState,
    ExperimentalCapabilities,
    SwitchBody,
    UpgradeBody,
    Upgraded,
)
from instar.plugin.route import operation
from instar.server.call import Call


class InstanceRoutes:
    """Instances as a whole."""

    @operation("POST", "/instance/dispose", "instance.dispose")
    async def dispose(self, call: Call) -> bool:
        """End a directory's instance: turns are aborted, and the next request opens it with the settings of then."""
        await call.instances.dispose(call.directory)
        return True

    @operation("POST", "/global/dispose", "global.dispose", scoped=False)
    async def dispose_all(self, call: Call) -> bool:
        """End every instance, as ``/instance/dispose`` ends one."""
        await call.instances.dispose_all()
        return True

    @operation("POST", "/global/upgrade", "global.upgrade", scoped=False)
    async def upgrade(self, body: UpgradeBody) -> Upgraded:
        """Say that instar does not upgrade itself."""
        said = f"instar does not upgrade itself: pip install --upgrade instar (asked for {body.target[:40]})"
        return Upgraded(success=False, error=said)

    @operation("GET", "/experimental/capabilities", "experimental.capabilities.get")
    async def capabilities(self) -> ExperimentalCapabilities:
        """Tell which of opencode's experiments are on: none."""
        return ExperimentalCapabilities(background_subagents=False)

    @operation("GET", "/experimental/console", "experimental.console.get")
    async def console(self) -> ConsoleState:
        """Tell of the account in opencode's cloud: there is none."""
        return ConsoleState(console_managed_providers=[], switchable_org_count=0)

    @operation("GET", "/experimental/console/orgs", "experimental.console.listOrgs")
    async def orgs(self) -> ConsoleOrgs:
        """List the organisations of the account in opencode's cloud: there are none."""
        return ConsoleOrgs(orgs=[])

    @operation("POST", "/experimental/console/switch", "experimental.console.switchOrg")
    async def switch(self, body: SwitchBody) -> bool:
        """Switch to another organisation; false, since there is none."""
        return False
