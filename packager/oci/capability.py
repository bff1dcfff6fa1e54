"""The one extended attribute that layers carry: security.capability (linux/capability.h, vfs_cap_data)."""

from __future__ import annotations

import os
import struct

from packager.base.errors import InputError
from packager.oci.entries import show_path

ATTRIBUTE = "security.capability"
_REVISION_MASK = 0xFF000000
_REVISION_2 = 0x02000000
_REVISION_3 = 0x03000000
_SIZE_2 = 20
_SIZE_3 = 24


def read_capability(path: bytes) -> bytes | None:
    """Return a file's capability attribute in its version 2 form, or None."""
    if ATTRIBUTE not in os.listxattr(path, follow_symlinks=False):
        return None
    return normalise_capability(os.getxattr(path, ATTRIBUTE, follow_symlinks=False), where=show_path(path))


def normalise_capability(value: bytes, *, where: str) -> bytes:
    """Return the version 2 form; a version 3 value that names another root than 0 is refused."""
    magic = struct.unpack_from("<I", value)[0] if len(value) in (_SIZE_2, _SIZE_3) else 0
    revision = magic & _REVISION_MASK
    if revision == _REVISION_2 and len(value) == _SIZE_2:
        return value
    if revision == _REVISION_3 and len(value) == _SIZE_3 and value[_SIZE_2:] == bytes(4):
        return struct.pack("<I", magic & ~_REVISION_MASK | _REVISION_2) + value[4:_SIZE_2]
    raise InputError(f"expected a capability of version 2, found {value.hex()}", where=where)
