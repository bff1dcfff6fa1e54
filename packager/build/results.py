"""What a derivation leaves behind: a layer, kept as canonical JSON under the derivation's key, and a log."""

from __future__ import annotations

from collections import deque
from dataclasses import asdict
from typing import TYPE_CHECKING

from packager.base.canonical import format_canonical, parse_json
from packager.base.digests import DiffId, parse_digest
from packager.base.errors import InputError
from packager.base.progress import Event
from packager.oci.layer import Layer

if TYPE_CHECKING:
    from packager.base.progress import Progress

_TAIL_BYTES = 6000


def format_layer(layer: Layer | None) -> bytes:
    """Return a derivation's result as canonical JSON; a step that changed nothing is `null`."""
    return format_canonical(None if layer is None else asdict(layer))


def parse_layer(data: bytes) -> Layer | None:
    """Return a derivation's result, or raise InputError."""
    value = parse_json(data, where="derivation result")
    if value is None:
        return None
    try:
        return Layer(
            diff_id=DiffId(parse_digest(value["diff_id"])),
            digest=parse_digest(value["digest"]),
            size=int(value["size"]),
            diff_size=int(value["diff_size"]),
            media_type=str(value["media_type"]),
        )
    except (KeyError, TypeError) as error:
        raise InputError(f"expected a layer, found {value!r}", where="derivation result") from error


class Log:
    """Keeps the end of what a step wrote and passes its last line on as progress."""

    def __init__(self, progress: Progress, step: str) -> None:
        self._blocks: deque[bytes] = deque()
        self._size = 0
        self._progress = progress
        self._step = step

    def write(self, block: bytes) -> None:
        """Take a block of output."""
        self._blocks.append(block)
        self._size += len(block)
        while self._size - len(self._blocks[0]) > _TAIL_BYTES:
            self._size -= len(self._blocks.popleft())
        line = block.decode(errors="replace").strip().rpartition("\n")[2]
        if line:
            self._progress(Event(f"step {self._step}", message=line[:160]))

    def tail(self) -> bytes:
        """Return the end of the output, a few thousand bytes at the most."""
        return b"".join(self._blocks)[-_TAIL_BYTES:]
