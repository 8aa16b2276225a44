from tests.server.follower import publish

from instar.event import FileEdited, make
from instar.server.stream import Feed


def edited(name: str):
    return make(FileEdited(file=name))


def test_the_history_is_bounded_in_number_and_in_bytes():
    by_number, by_size = Feed(kept=10), Feed(kept_bytes=1000)
    for number in range(100):
        publish(by_number, edited(str(number)))
        publish(by_size, edited("x" * 100))
    assert len(by_number.since(by_number._before)) == 10
    assert sum(len(one.payload) for one in by_size.since(by_size._before)) <= 1000


def test_after_the_last_event_that_was_let_go_of_nothing_is_missing_and_before_it_something_is():
    feed = Feed(kept=2)
    start = feed.position
    first, second, third, fourth = (publish(feed, edited(str(number))) for number in range(4))
    assert feed.since(start) is None
    assert feed.since(first) is None
    assert [one.id for one in feed.since(second)] == [third, fourth]
    assert feed.since(fourth) == []
    assert feed.since("evt_elsewhere") is None


def test_an_event_larger_than_the_history_is_not_kept_but_published():
    feed = Feed(kept_bytes=10)
    heard = feed.follow(lambda event: True)
    event_id = publish(feed, edited("x" * 100))
    assert heard.waiting == 1
    assert feed.since(event_id) == []
