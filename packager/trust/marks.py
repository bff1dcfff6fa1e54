"""Remembers what a layer was found to be, so that a file that has not changed since need not be read again.

A mark holds the measures of a layer's tar and, of its blob's file, device, inode, size and the times of its last change
(mtime, ctime). Nobody but root can set a ctime back, and every write moves it on; a file whose ctime is so young that a
later write could leave it the same gets no mark. What a mark cannot show: bits that rot on the disk, and who may write
to the store can write marks, as he can write to its unpacked trees. `verify` therefore reads every byte and believes no
mark; only `evaluate` takes them, which trusts the unpacked trees anyway.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from packager.base.canonical import format_canonical, parse_json
from packager.base.digests import DiffId, Digest, digest_of, parse_digest
from packager.base.errors import InputError
from packager.base.progress import Progress, silent
from packager.trust.layers import Measured, check_layer

if TYPE_CHECKING:
    from collections.abc import Callable

    from packager.oci.descriptor import Descriptor
    from packager.store.store import Store

SCHEMA = "wideswe-mark/2"
MIN_AGE_NS = 2 * 10**9
"""Two writes closer than the file system's clock ticks (4 ms here, 1 s elsewhere) look like one."""


@dataclass(frozen=True)
class Memory:
    """Measures layers of one store; with `recall`, those whose file is unchanged are taken from their mark."""

    store: Store
    recall: bool
    progress: Progress = silent
    clock_ns: Callable[[], int] = time.time_ns

    def measure(self, layer: Descriptor) -> tuple[Measured, bool]:
        """Return what a layer is, and whether that was remembered instead of read; IntegrityError as `check_layer`.

        A mark's size is that of the file, so a descriptor with another size is measured, and refused there.
        """
        key = _key(layer)
        before = _look(self.store, layer.digest)
        if self.recall and before[2] == layer.size:
            known = _parse(self.store.result(key), before)
            if known is not None:
                return known, True
        now = self.clock_ns()
        measured = check_layer(self.store, layer, progress=self.progress)
        if _look(self.store, layer.digest) == before and before[4] + MIN_AGE_NS < now:
            self.store.put_result(key, _format(measured, before))
        return measured, False


def _key(layer: Descriptor) -> Digest:
    return digest_of(format_canonical({"kind": SCHEMA, "digest": layer.digest, "media type": layer.media_type}))


def _look(store: Store, digest: Digest) -> tuple[int, ...]:
    status = os.lstat(store.path(digest))
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _format(measured: Measured, file: tuple[int, ...]) -> bytes:
    parts = {"schema": SCHEMA, "diff_id": measured.diff_id, "diff_size": measured.diff_size, "file": list(file)}
    return format_canonical(parts)


def _parse(data: bytes | None, file: tuple[int, ...]) -> Measured | None:
    """Return what a mark says of exactly this file; a mark that cannot be read is none."""
    if data is None:
        return None
    try:
        value: Any = parse_json(data, where="mark")
        if value["schema"] != SCHEMA or value["file"] != list(file):
            return None
        return Measured(DiffId(parse_digest(value["diff_id"])), int(value["diff_size"]))
    except (InputError, KeyError, TypeError, ValueError):
        return None
