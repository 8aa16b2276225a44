"""Answers about an instance as a whole, and of what instar leaves to others: accounts, upgrades."""

from instar.wire import Plain, Wire


class UpgradeBody(Wire):
    """The version that is wanted."""

    target: str


class Upgraded(Wire):
    """That nothing was upgraded, and why."""

    success: bool
    error: str


class ExperimentalCapabilities(Wire):
    """Which of opencode's experiments are on."""

    background_subagents: bool


class ConsoleState(Wire):
    """What an account in opencode's cloud brings."""

    console_managed_providers: list[str]
    switchable_org_count: int


class ConsoleOrgs(Wire):
    """The organisations of such an account."""

    orgs: list[Plain]


class SwitchBody(Wire):
    """An account and its organisation."""

    account_id: str
    org_id: str
