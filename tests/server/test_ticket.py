"""Tickets for terminals: once, for one terminal, for a minute."""

import pytest

from instar.server.access import LIFE, Tickets
from instar.testing import FakeClock


def scope(ticket: str, path: str = "/pty/pty_1/connect", kind: str = "websocket") -> dict[str, object]:
    return {"type": kind, "path": path, "query_string": f"cursor=0&ticket={ticket}".encode()}


def test_a_ticket_is_good_once() -> None:
    tickets = Tickets()
    one = tickets.issue("pty_1", "/here")
    assert tickets.admit(scope(one))
    assert tickets.admit(scope(one, "/api/pty/pty_1/connect"))
    assert tickets.redeem(one, "pty_1") == "/here"
    assert not tickets.admit(scope(one))
    assert tickets.redeem(one, "pty_1") is None


@pytest.mark.parametrize(("late", "good"), [(LIFE - 1, True), (LIFE, False)])
def test_a_ticket_is_good_for_a_minute(late: float, good: bool) -> None:
    clock = FakeClock()
    tickets = Tickets(clock)
    one = tickets.issue("pty_1", "/here")
    clock.advance(late)
    assert tickets.admit(scope(one)) is good
    assert (tickets.redeem(one, "pty_1") == "/here") is good


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/pty/pty_2/connect", "websocket"),
        ("/pty/pty_1", "websocket"),
        ("/session/pty/pty_1/connect", "websocket"),
        ("/pty/pty_1/connect/more", "websocket"),
        ("/pty/pty_1/connect", "http"),
    ],
)
def test_a_ticket_opens_nothing_else(path: str, kind: str) -> None:
    tickets = Tickets()
    one = tickets.issue("pty_1", "/here")
    assert not tickets.admit(scope(one, path, kind))
    assert tickets.redeem(one, "pty_2") is None


def test_a_ticket_that_was_tried_at_another_terminal_is_used_up() -> None:
    tickets = Tickets()
    one = tickets.issue("pty_1", "/here")
    assert tickets.redeem(one, "pty_2") is None
    assert tickets.redeem(one, "pty_1") is None


def test_tickets_that_nobody_uses_do_not_pile_up() -> None:
    tickets = Tickets()
    made = [tickets.issue("pty_1", "/here") for _ in range(1025)]
    assert tickets.redeem(made[0], "pty_1") is None
    assert tickets.redeem(made[1], "pty_1") == "/here"
