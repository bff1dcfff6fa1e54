"""What must not be in an image, derived from the gold patches, the hidden tests and everything that is public."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from packager.build.audit_needles import Needles, extract_needles, merge_needles
from packager.lock.git_objects import object_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from packager.oci.entries import Entry

_HUNK = re.compile(rb"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_EMPTY = object_id("blob", b"")
_POST_IMAGE = re.compile(rb"^index [0-9a-f]{40}\.\.(?!0{40})([0-9a-f]{40})", re.MULTILINE)


@dataclass(frozen=True)
class AuditSecrets:
    """Everything that an audit compares an image with.

    `blobs`: git blob id → the secret that is its content; `future`: ids of commits that must not be named anywhere;
    `bases`: path of each repository in the image (no leading slash) → the commit that its `main` must be.
    """

    needles: Needles = field(default_factory=Needles)
    blobs: Mapping[str, str] = field(default_factory=dict)
    future: frozenset[str] = frozenset()
    bases: Mapping[bytes, str] = field(default_factory=dict)


def derive_secrets(
    gold: Mapping[str, bytes],
    hidden: Mapping[str, Mapping[str, bytes]],
    public: Iterable[bytes],
    *,
    future: Iterable[str] = (),
    bases: Mapping[bytes, str] | None = None,
) -> AuditSecrets:
    """Derive what to look for.

    `gold` and `hidden` are per target; `public` is the content of every file of all targets and contexts at their bases
    and of the prompt, each read once (see `read_contents`).
    """
    parts = [extract_needles(f"gold of {target}", added_lines(patch)) for target, patch in sorted(gold.items())]
    blobs = {
        match[1].decode(): f"gold of {target}"
        for target, patch in sorted(gold.items())
        for match in _POST_IMAGE.finditer(patch)
        if match[1].decode() != _EMPTY
    }
    for target, files in sorted(hidden.items()):
        label = f"hidden tests of {target}"
        parts += [extract_needles(label, content.splitlines()) for _, content in sorted(files.items())]
        blobs |= {object_id("blob", content): label for content in files.values() if content}

    def remaining() -> Iterator[bytes]:
        for content in public:
            blobs.pop(object_id("blob", content), None)
            yield content

    needles = merge_needles(parts).without(remaining())
    return AuditSecrets(needles, blobs, frozenset(future), dict(bases or {}))


def read_contents(entries: Iterable[Entry]) -> Iterator[bytes]:
    """Yield the content of each file, one at a time."""
    for entry in entries:
        if isinstance(entry.content, bytes):
            yield entry.content
        elif isinstance(entry.content, Path):
            yield entry.content.read_bytes()


def added_lines(patch: bytes) -> list[bytes]:
    """Return the lines that a git-format patch adds."""
    added: list[bytes] = []
    old = new = 0
    for line in patch.split(b"\n"):
        if old > 0 or new > 0:
            old -= line[:1] in (b"-", b" ", b"")
            new -= line[:1] in (b"+", b" ", b"")
            if line.startswith(b"+"):
                added.append(line[1:])
        elif match := _HUNK.match(line):
            old, new = (int(count) if count is not None else 1 for count in match.groups())
    return added
