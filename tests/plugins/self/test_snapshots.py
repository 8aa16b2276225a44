"""Snapshots in memory: what is loaded is a copy, whatever becomes of it."""

from instar.plugins.self.snapshots import Snapshots


def test_what_is_loaded_is_a_copy_that_leaves_the_snapshot_as_it_was() -> None:
    snapshots = Snapshots()
    snapshots.save("now", {"max_iterations": 40}, {"mine": {"a": [1]}})
    for _ in range(2):
        values, variables = snapshots.load("now")
        assert (values, variables) == ({"max_iterations": 40}, {"mine": {"a": [1]}})
        assert isinstance(values, dict)
        values["max_iterations"] = 1_000_000
        variables["mine"]["a"].append(2)
