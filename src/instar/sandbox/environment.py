"""What a child is told: the environment without secrets, and the few variables that a sandboxed child gets.

A variable goes when its name says that it holds a secret, or when its value is, or holds,
a secret that instar knows; unless it was named to be kept. Names are only a rule of thumb: what a person
calls `FAVOURITE` and instar does not know by value stays.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import Final

from instar.process.child import VARIABLE
from instar.wire.pattern import late_pattern
from instar.wire.secret import Secret

_WORDS: Final = late_pattern(
    r"(?:^|_)(?:\w*(?:TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|APIKEY)S?|(?:ACCESS|AUTH|MASTER|PRIVATE|SIGNING)?KEYS?|PASS|PWD|AUTH|BEARER|COOKIE|"
    r"PAT|DSN|NETRC|JWT|AUTHORIZATION|PRIVATE)(?:_|\d|$)"
)
_INNOCENT: Final = frozenset(
    [
        "PWD",
        "OLDPWD",
        "SSH_AUTH_SOCK",
        "XAUTHORITY",
        "GPG_TTY",
        "PASSWORD_STORE_DIR",
        "KEYTIMEOUT",
        "GIT_ASKPASS",
        "SSH_ASKPASS",
        "TOKENIZERS_PARALLELISM",
        "XDG_SESSION_ID",
        "CREDENTIALS_DIRECTORY",
        "KEYBOARD_LAYOUT",
    ]
)
"""Names that match and hold none: folders, places of sockets, switches."""
_PLACES: Final = late_pattern(r"_(?:FILE|PATH|DIR|SOCK|URL|ID|TTL|NAME|LENGTH|LIMIT|COUNT|TIMEOUT)$")
"""What ends a name of something beside a secret: `AWS_ACCESS_KEY_ID` names a key but is none by itself."""
_NAMED: Final = frozenset(
    [
        "AWS_ACCESS_KEY_ID",
        "AWS_BEARER_TOKEN_BEDROCK",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "AZURE_CLIENT_ID",
        "DATABASE_URL",
        "REDIS_URL",
        "MONGODB_URI",
        "AMQP_URL",
        "SENTRY_DSN",
        "NPM_CONFIG__AUTH",
        "PGPASSFILE",
        "KUBECONFIG",
        "OPENCODE_CONFIG_CONTENT",
        "INSTAR_CONFIG_CONTENT",
        "INSTAR_DATABASE",
        "GIT_CONFIG_PARAMETERS",
        "SLACK_WEBHOOK_URL",
        "OTEL_EXPORTER_OTLP_HEADERS",
        "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
        "OTEL_EXPORTER_OTLP_METRICS_HEADERS",
        "OTEL_EXPORTER_OTLP_LOGS_HEADERS",
    ]
)
"""Known variables that hold or lead to a secret, whatever their name looks like."""
_LOGIN: Final = late_pattern(r"[a-z][a-z0-9+.-]*://[^/\s:@]*:[^/\s@]+@", re.IGNORECASE)
_SHORTEST: Final = 6

PLAIN: Final = frozenset(
    [
        *("PATH", "LANG", "LANGUAGE", "TZ", "TERM", "NO_COLOR", "PYTHONUTF8", "PYTHONHASHSEED"),
        *("PYENV_ROOT", "NVM_DIR", "VOLTA_HOME", "RUSTUP_HOME", "ASDF_DIR", "ASDF_DATA_DIR", "MISE_DATA_DIR"),
    ]
)
"""What a sandboxed child keeps, with every ``LC_…``; the last are where version managers keep programs."""


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Whether a variable of this name is taken to hold a secret."""
    upper = name.upper()
    if upper in _NAMED:
        return True
    return upper not in _INNOCENT and bool(_WORDS.search(upper)) and not _PLACES.search(upper)


def environment(
    variables: Mapping[str, str], *, secrets: Iterable[Secret] = (), keep: Collection[str] = ()
) -> dict[str, str]:
    """Return `variables` without those that hold a secret, in their order.

    `secrets` are the values that instar knows (provider keys, the server's password): a variable that holds one of
    at least six characters anywhere goes. So does an address with a name and a password in it. `keep` names variables
    that stay whatever they hold.
    """
    known = [value for secret in secrets if len(value := secret.reveal()) >= _SHORTEST]

    def stays(name: str, value: str) -> bool:
        if name in keep:
            return True
        return not (is_secret_name(name) or _LOGIN.search(value) or any(one in value for one in known))

    return {name: value for name, value in variables.items() if stays(name, value)}


def bare(variables: Mapping[str, str], home: str, keep: Collection[str] = ()) -> dict[str, str]:
    """Return what a sandboxed child gets: `PLAIN`, ``LC_…`` and `keep` of `variables`; `home` is its ``TMPDIR`` too."""
    kept = {
        name: value
        for name, value in variables.items()
        if name in PLAIN or name == VARIABLE or name in keep or name.startswith("LC_")
    }
    return {**kept, "HOME": home, "TMPDIR": home}
