"""What a session is called that nobody named yet."""

import secrets
import time

_ADJECTIVES = ("amber", "brave", "calm", "clever", "eager", "fair", "gentle", "keen", "kind", "noble")
_NOUNS = ("beetle", "brook", "cedar", "comet", "cricket", "ember", "falcon", "harbor", "moth", "otter")


def slug() -> str:
    """Return a readable handle for a session: adjective-noun."""
    return f"{secrets.choice(_ADJECTIVES)}-{secrets.choice(_NOUNS)}"


def default_title(created: int, *, child: bool = False) -> str:
    """Return the title of a session that nobody named yet: opencode's form; a `child` has a parent."""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(created / 1000))
    return f"{'Child' if child else 'New'} session - {stamp}.{created % 1000:03d}Z"
