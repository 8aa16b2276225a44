"""The filter is the same in both of its tables, and is empty where the machine is not known."""

import struct

import pytest

from instar.sandbox import seccomp


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize("refused", [seccomp.SHIELD, seccomp.SANDBOX])
@pytest.mark.parametrize("families", [None, (), seccomp.LOCAL])
def test_a_filter_is_whole_steps_whose_jumps_stay_inside(
    machine: str, refused: tuple[str, ...], families: tuple[int, ...] | None
) -> None:
    program = seccomp.program(refused, machine, families)
    steps = list(struct.iter_unpack("=HBBI", program))
    assert len(steps) > len(refused)
    for index, (code, yes, no, _) in enumerate(steps):
        if code & 0x07 == 0x05:
            assert index + 1 + max(yes, no) < len(steps)
    assert steps[-1] == (0x06, 0, 0, 0x7FFF0000)


def test_an_unknown_machine_has_no_filter() -> None:
    assert seccomp.program(seccomp.SHIELD, "riscv64") == b""
