from __future__ import annotations

import errno
import struct

import pytest

from packager.sandbox.syscall_filter import program_for

ALLOW, FAIL = 0x7FFF0000, 0x00050000
X86, ARM = ("x86_64", 0xC000003E), ("aarch64", 0xC00000B7)
NEWUSER = 0x10000000


def judge(machine: str, architecture: int, number: int, argument: int = 0) -> int:
    """Interpret the filter as the kernel would (Documentation/networking/filter.rst)."""
    program = program_for(machine)
    assert program is not None
    data = struct.pack("<iIQQ", number, architecture, 0, argument)
    code = list(struct.iter_unpack("<HBBI", program))
    position, register = 0, 0
    while True:
        operation, yes, no, value = code[position]
        position += 1
        if operation == 0x06:
            return int(value)
        if operation == 0x20:
            (register,) = struct.unpack_from("<I", data, value)
            continue
        truth = {0x15: register == value, 0x35: register >= value, 0x45: bool(register & value)}[operation]
        position += yes if truth else no


@pytest.mark.parametrize(
    ("place", "number", "argument", "expected"),
    [
        (X86, 0, 0, ALLOW),
        (X86, 59, NEWUSER, ALLOW),
        (X86, 56, 0x1200011, ALLOW),
        (X86, 56, NEWUSER | 17, FAIL | errno.EPERM),
        (X86, 272, 0x20000, ALLOW),
        (X86, 272, NEWUSER, FAIL | errno.EPERM),
        (X86, 250, 0, FAIL | errno.EPERM),
        (X86, 321, 0, FAIL | errno.EPERM),
        (X86, 435, 0, FAIL | errno.ENOSYS),
        (X86, 425, 0, FAIL | errno.ENOSYS),
        (X86, 272 | 0x40000000, NEWUSER, FAIL | errno.ENOSYS),
        (("x86_64", 0x40000003), 310, NEWUSER, FAIL | errno.ENOSYS),
        (ARM, 63, 0, ALLOW),
        (ARM, 220, NEWUSER, FAIL | errno.EPERM),
        (ARM, 97, NEWUSER, FAIL | errno.EPERM),
        (ARM, 97, 0, ALLOW),
        (ARM, 219, 0, FAIL | errno.EPERM),
        (ARM, 435, 0, FAIL | errno.ENOSYS),
    ],
)
def test_calls_are_allowed_unless_they_reach_around(
    place: tuple[str, int], number: int, argument: int, expected: int
) -> None:
    assert judge(*place, number, argument) == expected


def test_a_machine_whose_numbers_are_unknown_has_no_filter() -> None:
    assert program_for("riscv64") is None
