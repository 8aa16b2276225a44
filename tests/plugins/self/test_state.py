"""The state of a session: what is given out is a copy, and a change of it changes nothing else."""

from instar.plugins.self.state import SettingsSnapshot, Snapshots, Variables


def test_a_variable_is_given_out_as_a_copy() -> None:
    variables = Variables()
    variables["mine"] = {"a": [1]}
    variables.get("mine")["a"].append(2)
    dict(variables)["mine"]["a"].append(2)
    variables["mine"]["a"].append(2)
    assert variables.get("mine") == {"a": [1]}
    assert variables == {"mine": {"a": [1]}}


def test_a_snapshot_is_loaded_as_a_copy() -> None:
    snapshots = Snapshots()
    snapshots["now"] = SettingsSnapshot({"max_iterations": 40}, {"mine": {"a": [1]}})
    for _ in range(2):
        values, variables = snapshots["now"]
        assert (values, variables) == ({"max_iterations": 40}, {"mine": {"a": [1]}})
        assert isinstance(values, dict)
        values["max_iterations"] = 1_000_000
        variables["mine"]["a"].append(2)
