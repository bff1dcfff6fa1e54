"""The system calls that no command of a sandbox gets, as a seccomp filter: what docker's own profile refuses, too.

No user namespaces (in one of its own, a command would hold every capability), no keyrings (they belong to the host's
session), and no kernel interfaces that are often how a sandbox is left. Standard library only: the launcher uses it.
"""

from __future__ import annotations

import ctypes
import errno
import os

from packager.sandbox import kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# clone, unshare, then what is refused whole; the numbers of linux/amd64 and linux/arm64 (asm/unistd_64.h).
_NUMBERS: Mapping[str, tuple[int, int, int, dict[str, int]]] = {
    "x86_64": (
        0xC000003E,
        56,
        272,
        {"add_key": 248, "bpf": 321, "keyctl": 250, "perf_event_open": 298, "request_key": 249, "userfaultfd": 323},
    ),
    "aarch64": (
        0xC00000B7,
        220,
        97,
        {"add_key": 217, "bpf": 280, "keyctl": 219, "perf_event_open": 241, "request_key": 218, "userfaultfd": 282},
    ),
}
_UNKNOWN = {"clone3": 435, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427}
"""Answered as if the kernel were too old: the C library then calls clone, whose flags can be read."""

_X32_BIT = 0x40000000
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_AT_NUMBER, _AT_ARCHITECTURE, _AT_FIRST_ARGUMENT = 0, 4, 16
_ALLOW = 0x7FFF0000
_FAIL = 0x00050000
_PR_SET_SECCOMP = 22
_MODE_FILTER = 2


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def program_for(machine: str) -> bytes | None:
    """Return the filter's instructions (struct sock_filter) for a machine, None for one whose numbers are not known."""
    if machine not in _NUMBERS:
        return None
    return b"".join(
        code.to_bytes(2, "little") + bytes((yes, no)) + value.to_bytes(4, "little")
        for code, yes, no, value in _instructions(machine)
    )


def _instructions(machine: str) -> Iterator[tuple[int, int, int, int]]:
    architecture, clone, unshare, refused = _NUMBERS[machine]
    unsupported, forbidden = _FAIL | errno.ENOSYS, _FAIL | errno.EPERM
    yield _LOAD, 0, 0, _AT_ARCHITECTURE
    yield _EQUAL, 1, 0, architecture  # other calling conventions have other numbers
    yield _RETURN, 0, 0, unsupported
    yield _LOAD, 0, 0, _AT_NUMBER
    yield _AT_LEAST, 0, 1, _X32_BIT
    yield _RETURN, 0, 0, unsupported
    for number in sorted(_UNKNOWN.values()):
        yield _EQUAL, 0, 1, number
        yield _RETURN, 0, 0, unsupported
    for number in sorted(refused.values()):
        yield _EQUAL, 0, 1, number
        yield _RETURN, 0, 0, forbidden
    yield _EQUAL, 2, 0, clone
    yield _EQUAL, 1, 0, unshare
    yield _RETURN, 0, 0, _ALLOW
    yield _LOAD, 0, 0, _AT_FIRST_ARGUMENT
    yield _ANY_BIT, 0, 1, kernel.CLONE_NEWUSER
    yield _RETURN, 0, 0, forbidden
    yield _RETURN, 0, 0, _ALLOW


def install() -> None:
    """Put the filter on this process for good; it must have given up new privileges before."""
    code = program_for(os.uname().machine)
    if code is None:
        return
    program = _Program(len(code) // 8, code)
    kernel.prctl_pointer(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.addressof(program))
