"""The system calls that Python 3.11 lacks. Standard library only and cheap to import: the launcher uses it, too."""

from __future__ import annotations

import ctypes
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

CLONE_FS = 0x200
CLONE_NEWNS = 0x20000
CLONE_NEWCGROUP = 0x2000000
CLONE_NEWUTS = 0x4000000
CLONE_NEWIPC = 0x8000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 1
MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_BIND = 0x1000
MS_MOVE = 0x2000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
MNT_DETACH = 2

ATTR_RDONLY = 1
ATTR_NOSUID = 2
ATTR_NODEV = 4

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_CAPBSET_READ = 23
PR_CAPBSET_DROP = 24
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4

SIGINT = 2  # the module signal takes a quarter of the launcher's time to import
SIGKILL = 9
SIGPIPE = 13
SIGTERM = 15
SIGCHLD = 17
SIGXFSZ = 25

CAP_SYS_CHROOT = 18
CAP_SYS_ADMIN = 21

# Numbers above 423 are the same on every architecture; the C library learnt these calls only in 2.36.
_SYS_OPEN_TREE = 428
_SYS_MOVE_MOUNT = 429
_SYS_MOUNT_SETATTR = 442
_AT_FDCWD = -100
_AT_EMPTY_PATH = 0x1000
_AT_RECURSIVE = 0x8000
_OPEN_TREE_CLONE = 1
_OPEN_TREE_CLOEXEC = 0o2000000
_MOVE_MOUNT_F_EMPTY_PATH = 4
_CAPABILITY_VERSION_3 = 0x20080522

_SIG_SETMASK = 2
_SIGSET_BYTES = 128

_LIBC = ctypes.CDLL(None, use_errno=True)


class _MountAttributes(ctypes.Structure):
    _fields_ = (
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


class _CapabilityHeader(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _CapabilityWord(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


def _checked(result: int, what: str) -> int:
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def _bytes(path: str | None) -> bytes | None:
    return None if path is None else os.fsencode(path)


def unshare(flags: int) -> None:
    """Leave namespaces; CLONE_NEWUSER needs a process with one thread."""
    _checked(_LIBC.unshare(ctypes.c_int(flags)), f"unshare {flags:#x}")


def enter_namespace(descriptor: int, kind: int) -> None:
    """Enter a namespace; entering a mount namespace, even the own one, makes its true root this process's root."""
    _checked(_LIBC.setns(ctypes.c_int(descriptor), ctypes.c_int(kind)), f"setns {kind:#x}")


def mount(source: str | None, target: str, kind: str | None, flags: int = 0, data: str | None = None) -> None:
    """Attach a file system to this mount namespace."""
    result = _LIBC.mount(_bytes(source), _bytes(target), _bytes(kind), ctypes.c_ulong(flags), _bytes(data))
    _checked(result, f"mount {kind or source} on {target}")


def unmount(target: str, flags: int = MNT_DETACH) -> None:
    """Unmount as umount2(2) does; lazily unless told otherwise."""
    _checked(_LIBC.umount2(_bytes(target), ctypes.c_int(flags)), f"unmount {target}")


def make_mounts_private() -> None:
    """Cut this mount namespace off: nothing that is mounted here shows elsewhere."""
    mount(None, "/", None, MS_REC | MS_PRIVATE)


def pivot_root(new: str, old: str) -> None:
    """Exchange the root of this mount namespace."""
    _checked(_LIBC.pivot_root(_bytes(new), _bytes(old)), f"pivot_root {new}")


def clone_mount(source: str, *, recursive: bool = True) -> int:
    """Return a descriptor of a detached copy of what is mounted at `source`, with or without the mounts below."""
    flags = _OPEN_TREE_CLONE | _OPEN_TREE_CLOEXEC | (_AT_RECURSIVE if recursive else 0)
    path = _bytes(source)
    result = _LIBC.syscall(ctypes.c_long(_SYS_OPEN_TREE), ctypes.c_int(_AT_FDCWD), path, ctypes.c_uint(flags))
    return _checked(result, f"open_tree {source}")


def attach_mount(descriptor: int, target: str) -> None:
    """Mount what clone_mount returned."""
    result = _LIBC.syscall(
        ctypes.c_long(_SYS_MOVE_MOUNT),
        ctypes.c_int(descriptor),
        b"",
        ctypes.c_int(_AT_FDCWD),
        _bytes(target),
        ctypes.c_uint(_MOVE_MOUNT_F_EMPTY_PATH),
    )
    _checked(result, f"mount on {target}")


def set_mount_attributes(descriptor: int, attributes: int) -> None:
    """Add attributes to a detached mount and to everything below it."""
    wanted = _MountAttributes(attr_set=attributes)
    result = _LIBC.syscall(
        ctypes.c_long(_SYS_MOUNT_SETATTR),
        ctypes.c_int(descriptor),
        b"",
        ctypes.c_uint(_AT_EMPTY_PATH | _AT_RECURSIVE),
        ctypes.byref(wanted),
        ctypes.c_size_t(ctypes.sizeof(wanted)),
    )
    _checked(result, f"mount_setattr {attributes:#x}")


def prctl(option: int, value: int = 0) -> int:
    """Set or read one property of this process."""
    zero = ctypes.c_ulong(0)
    return _checked(_LIBC.prctl(ctypes.c_int(option), ctypes.c_ulong(value), zero, zero, zero), f"prctl {option}")


def restore_signal(number: int) -> None:
    """Give a signal its default effect, whatever Python made of it."""
    _LIBC.signal(ctypes.c_int(number), None)


def block_signals(numbers: Iterable[int]) -> None:
    """Hold back exactly these signals until wait_signal takes them; none lets all through."""
    signals = _signal_set(numbers)
    _checked(-1 if _LIBC.sigprocmask(ctypes.c_int(_SIG_SETMASK), signals, None) else 0, "sigprocmask")


def wait_signal(numbers: Iterable[int]) -> int:
    """Wait for one of these blocked signals and return its number."""
    while True:
        try:
            return _checked(_LIBC.sigwaitinfo(_signal_set(numbers), None), "sigwaitinfo")
        except InterruptedError:
            continue


def _signal_set(numbers: Iterable[int]) -> ctypes.Array[ctypes.c_char]:
    signals = ctypes.create_string_buffer(_SIGSET_BYTES)
    _LIBC.sigemptyset(signals)
    for number in numbers:
        _LIBC.sigaddset(signals, ctypes.c_int(number))
    return signals


def clear_memory(address: int, size: int) -> None:
    """Fill a part of this process's memory with zeros."""
    ctypes.memset(address, 0, size)


def prctl_pointer(option: int, value: int, address: int) -> None:
    """Call prctl with a value and the address of a structure."""
    zero = ctypes.c_ulong(0)
    result = _LIBC.prctl(ctypes.c_int(option), ctypes.c_ulong(value), ctypes.c_void_p(address), zero, zero)
    _checked(result, f"prctl {option}")


def set_host_name(name: str) -> None:
    """Set the host's name and clear its domain in this UTS namespace."""
    encoded = name.encode()
    _checked(_LIBC.sethostname(encoded, ctypes.c_size_t(len(encoded))), "sethostname")
    _checked(_LIBC.setdomainname(b"(none)", ctypes.c_size_t(6)), "setdomainname")


def limit_capabilities(allowed: Iterable[int]) -> None:
    """Drop every capability outside `allowed` from the bounding set, for good."""
    kept = frozenset(allowed)
    for number in range(64):
        try:
            prctl(PR_CAPBSET_READ, number)
        except OSError:
            return  # past the kernel's last capability
        if number not in kept:
            prctl(PR_CAPBSET_DROP, number)


def set_capabilities(allowed: Iterable[int]) -> None:
    """Hold exactly `allowed` (of what is held now) as permitted and effective; inherit nothing."""
    header = _CapabilityHeader(version=_CAPABILITY_VERSION_3, pid=0)
    words = (_CapabilityWord * 2)()
    _checked(_LIBC.capget(ctypes.byref(header), words), "capget")
    mask = sum(1 << number for number in allowed)
    for index, word in enumerate(words):
        word.permitted &= (mask >> (32 * index)) & 0xFFFFFFFF
        word.effective = word.permitted
        word.inheritable = 0
    _checked(_LIBC.capset(ctypes.byref(header), words), "capset")


def effective_capabilities() -> int:
    """Return the mask of this thread's effective capabilities."""
    header = _CapabilityHeader(version=_CAPABILITY_VERSION_3, pid=0)
    words = (_CapabilityWord * 2)()
    _checked(_LIBC.capget(ctypes.byref(header), words), "capget")
    return int(words[0].effective) | int(words[1].effective) << 32
