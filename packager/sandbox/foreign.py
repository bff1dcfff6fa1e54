"""Commands of another architecture: the kernel starts them through qemu-user where binfmt_misc was told so."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from packager.base.errors import WorldError
from packager.sandbox import kernel
from packager.sandbox.namespaces import is_prepared

if TYPE_CHECKING:
    from collections.abc import Iterator

PLATFORMS = {"x86_64": "linux/amd64", "aarch64": "linux/arm64"}
"""By what the kernel calls its machine."""

_MACHINES = {"linux/amd64": 0x3E, "linux/arm64": 0xB7}  # elf(5): e_machine
_REGISTERED = Path("/proc/sys/fs/binfmt_misc")
_HINT = (
    "install qemu-user-static and binfmt-support (Debian), or work on a machine of that platform; "
    "`lock` without dependencies and `render` start no command"
)


def own_platform() -> str:
    """Return the platform whose commands this machine runs by itself."""
    machine = os.uname().machine
    return PLATFORMS.get(machine, f"linux/{machine}")


def refuse_foreign(platform: str) -> None:
    """Raise WorldError if this machine can start no command of a platform; to be called before it is tried."""
    why = why_not(platform)
    if why:
        raise WorldError(f"this machine is {own_platform()} and cannot run commands of {platform}: {why}", hint=_HINT)


def why_not(platform: str) -> str:
    """Return why commands of a platform cannot be started here, or nothing if they can."""
    if platform == own_platform():
        return ""
    head = elf_head(platform)
    if head is None:
        return "no such platform is known"
    mount_registered()
    entries = [text for text in read_registered(_REGISTERED) if fits(text, head)]
    if not entries:
        return "no interpreter for them is registered with binfmt_misc"
    if any("F" in _fields(text).get("flags:", "") for text in entries):
        return ""
    return "the registered interpreter is looked for inside the image, since it was registered without flag F"


def elf_head(platform: str) -> bytes | None:
    """Return how a program of a platform begins: 64 bits, little-endian, executable (elf(5))."""
    machine = _MACHINES.get(platform)
    if machine is None:
        return None
    return b"\x7fELF\x02\x01\x01" + bytes(9) + (2).to_bytes(2, "little") + machine.to_bytes(2, "little")


def mount_registered() -> None:
    """Mount binfmt_misc where it is not, as in a chroot, if this process has a mount namespace of its own."""
    if is_prepared() and not (_REGISTERED / "status").exists():
        with suppress(OSError):
            kernel.mount("binfmt_misc", str(_REGISTERED), "binfmt_misc")


def read_registered(folder: Path) -> Iterator[str]:
    """Yield the text of every entry of a mounted binfmt_misc (Documentation/admin-guide/binfmt-misc.rst)."""
    with suppress(OSError):
        for path in sorted(folder.iterdir()):
            if path.name not in ("register", "status"):
                yield path.read_text()


def fits(text: str, head: bytes) -> bool:
    """Say whether an enabled entry takes programs that begin so; bytes that `head` leaves out count as zero."""
    fields = _fields(text)
    magic = bytes.fromhex(fields.get("magic", ""))
    mask = bytes.fromhex(fields.get("mask", "")) or b"\xff" * len(magic)
    offset = int(fields.get("offset", "0"))
    part = head.ljust(offset + len(magic), b"\0")[offset : offset + len(magic)]
    wanted = bytes(a & b for a, b in zip(magic, mask, strict=True))
    return "enabled" in fields and bool(magic) and bytes(a & b for a, b in zip(part, mask, strict=True)) == wanted


def _fields(text: str) -> dict[str, str]:
    return {name: value for name, _, value in (line.partition(" ") for line in text.splitlines())}
