import copy
import io
import json
import logging
import pickle
import pprint
import traceback
from collections.abc import Callable
from dataclasses import dataclass

import msgspec
import pytest

from instar.wire.secret import MASK, Secret, redact

VALUE = "sk-very-secret-4711"


@dataclass
class Settings:
    key: Secret


def logged(secret: Secret) -> str:
    stream = io.StringIO()
    logger = logging.Logger("test")
    logger.addHandler(logging.StreamHandler(stream))
    logger.warning("key %s %r", secret, secret)
    return stream.getvalue()


def raised(secret: Secret) -> str:
    try:
        raise ValueError(secret)
    except ValueError as error:
        return "".join(traceback.format_exception(error))


@pytest.mark.parametrize(
    "show",
    [
        str,
        repr,
        ascii,
        format,
        logged,
        raised,
        pprint.pformat,
        lambda secret: f"{secret} {secret!r} {secret:>8}",
        lambda secret: "%s %r" % (secret, secret),  # noqa: UP031
        lambda secret: "{} {!r}".format(secret, secret),  # noqa: UP032
        lambda secret: str([secret, {"k": secret}, (secret,)]),
        lambda secret: repr(Settings(secret)),
        lambda secret: json.dumps({"k": secret}, default=str),
        lambda secret: str(getattr(secret, "__dict__", "***")),
    ],
)
def test_a_secret_prints_as_stars(show: Callable[[Secret], str]) -> None:
    text = show(Secret(VALUE))
    assert VALUE not in text
    assert MASK in text


@pytest.mark.parametrize(
    "encode",
    [
        json.dumps,
        msgspec.json.encode,
        msgspec.to_builtins,
        pickle.dumps,
        lambda secret: pickle.dumps(Settings(secret)),
    ],
)
def test_a_secret_is_not_encoded(encode: Callable[[Secret], object]) -> None:
    with pytest.raises(TypeError) as caught:
        encode(Secret(VALUE))
    assert VALUE not in str(caught.value)


def test_a_secret_gives_its_value_to_who_asks_for_it() -> None:
    assert Secret(VALUE).reveal() == VALUE


def test_secrets_are_equal_by_value_and_to_nothing_else() -> None:
    assert Secret(VALUE) == Secret(VALUE)
    assert Secret(VALUE) != Secret("other")
    assert Secret(VALUE) != VALUE
    assert len({Secret(VALUE), Secret(VALUE)}) == 1
    assert bool(Secret(VALUE))
    assert not Secret("")


def test_a_deep_copy_of_settings_holds_the_same_secret() -> None:
    settings = Settings(Secret(VALUE))
    assert copy.deepcopy(settings).key.reveal() == VALUE
    assert copy.copy(settings.key) is settings.key


def test_redaction_takes_every_occurrence_and_leaves_short_values() -> None:
    text = f"a {VALUE} b {VALUE}, yes"
    assert redact(text, [Secret(VALUE), Secret("yes")]) == "a *** b ***, yes"


@pytest.mark.parametrize("order", [1, -1])
def test_of_two_secrets_that_begin_alike_no_tail_stays(order: int) -> None:
    secrets = [Secret("abcdef"), Secret("abcdef-and-more")][::order]
    assert redact("x abcdef-and-more y abcdef", secrets) == "x *** y ***"
