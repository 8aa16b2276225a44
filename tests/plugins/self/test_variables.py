"""Runtime variables: what is given out is a copy, whatever becomes of it."""

from instar.plugins.self.variables import Variables


def test_what_is_given_out_is_a_copy_that_leaves_the_variables_as_they_were() -> None:
    variables = Variables({"mine": {"a": [1]}})
    variables.get("mine")["a"].append(2)
    variables.all()["mine"]["a"].append(2)
    assert variables.get("mine") == {"a": [1]}
    assert variables.all() == {"mine": {"a": [1]}}
