"""instar: a self-evolving agent runtime."""

try:
    # The build writes it, from the tag of the commit; so does the install of a checkout.
    from instar._version import __version__ as __version__
except ModuleNotFoundError:
    # A checkout that was never installed, as a new worktree.
    __version__ = "0.0.0"
