"""Which variables a child is given."""

import pytest

from instar.sandbox.environment import environment, is_secret_name
from instar.wire.secret import Secret

SECRETS = (
    *("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GITHUB_TOKEN", "GH_TOKEN", "NPM_TOKEN"),
    *(
        "AWS_SECRET_ACCESS_KEY",
        "AWS_ACCESS_KEY_ID",
        "AWS_SESSION_TOKEN",
        "AWS_BEARER_TOKEN_BEDROCK",
        "GOOGLE_APPLICATION_CREDENTIALS",
    ),
    *("DATABASE_URL", "PGPASSWORD", "MYSQL_PWD", "DB_PASS", "STRIPE_SECRET"),
    *("CLIENT_SECRETS", "SSH_PRIVATE_KEY", "API_KEYS", "HF_TOKEN", "SLACK_BOT_TOKEN"),
    *("OPENCODE_SERVER_PASSWORD", "INSTAR_SERVER_PASSWORD", "SENTRY_DSN", "JWT", "COOKIE"),
    *("SECRET", "TOKEN", "PASSWORD", "openai_api_key", "APIKEY"),
    *("MY_APIKEY", "PASSPHRASE", "GPG_PASSPHRASE", "AUTH", "BASIC_AUTH"),
    *("NPM_CONFIG__AUTH", "AUTHORIZATION", "AZURE_CREDENTIALS", "KUBECONFIG", "TOKEN2"),
)
PLAIN = (
    *("PATH", "HOME", "LANG", "LC_ALL", "PWD"),
    *("OLDPWD", "SHELL", "TERM", "USER", "EDITOR"),
    *("SSH_AUTH_SOCK", "VIRTUAL_ENV", "PYTHONPATH", "NODE_ENV", "GOPATH"),
    *("XDG_RUNTIME_DIR", "KEYBOARD_LAYOUT", "MONKEY", "TURKEY_SIZE", "TOKENIZERS_PARALLELISM"),
    *("COMPASS", "AUTHOR", "GIT_AUTHOR_NAME", "PATTERN", "KEYTIMEOUT"),
    *("SSL_CERT_FILE", "XAUTHORITY", "GPG_TTY", "MAX_TOKENS_LIMIT", "SSH_KEY_PATH"),
    *("PASSWORD_FILE", "CI", "DISPLAY", "HOSTNAME", "COLUMNS"),
    *("INSTAR_RUN", "INSTAR_DATA", "HTTP_PROXY"),
)


@pytest.mark.parametrize("name", SECRETS)
def test_a_name_says_that_a_variable_holds_a_secret(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", PLAIN)
def test_a_plain_variable_stays(name: str) -> None:
    assert environment({name: "value"}) == {name: "value"}


def test_a_known_secret_goes_under_any_name_and_inside_any_value() -> None:
    given = {"FAVOURITE": "sk-abcdef", "URL": "x?k=sk-abcdef&y", "SHORT": "12345", "PATH": "/bin"}
    secrets = [Secret("sk-abcdef"), Secret("12345"), Secret("")]
    assert environment(given, secrets=secrets) == {"SHORT": "12345", "PATH": "/bin"}


def test_an_address_with_a_password_goes() -> None:
    given = {
        "A": "postgres://me:hidden@host/db",
        "B": "https://user@host/",
        "C": "redis://:pw@host",
        "D": "http://h:80/",
    }
    assert list(environment(given)) == ["B", "D"]


def test_what_is_named_stays_whatever_it_holds() -> None:
    given = {"GITHUB_TOKEN": "t", "MINE": "sk-abcdef"}
    assert environment(given, secrets=[Secret("sk-abcdef")], keep=("GITHUB_TOKEN", "MINE")) == given
