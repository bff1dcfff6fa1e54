"""What a rebuild says about an image, as an in-toto statement: the same words for the same rebuild, without a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from packager.base.canonical import format_canonical
from packager.base.digests import hex_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from packager.base.digests import Digest
    from packager.build.variations import Variation

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
REBUILD_PREDICATE = "https://wideswe.dev/rebuild/v1"


@dataclass(frozen=True)
class Rebuild:
    """What was rebuilt from what, and what came of it; `lock` is the digest of the lock's bytes."""

    task: str
    platform: str
    lock: Digest
    environment_id: str
    content_id: str
    engines: tuple[str, ...]
    version: str
    same: bool


def rebuild_predicate(rebuild: Rebuild, variations: Iterable[Variation]) -> dict[str, Any]:
    """Return the predicate: inputs, ids, what was varied, and whether everything came out the same."""
    rows = sorted(variations, key=lambda row: row.name)
    return {
        "task": rebuild.task,
        "platform": rebuild.platform,
        "lock": {"sha256": hex_of(rebuild.lock)},
        "packager": {"name": "wideswe-pack", "version": rebuild.version},
        "engines": sorted(set(rebuild.engines)),
        "varied": [row.name for row in rows if row.possible],
        "notVaried": [row.name for row in rows if not row.possible],
        "environmentId": rebuild.environment_id,
        "contentId": rebuild.content_id,
        "result": "REPRODUCED" if rebuild.same else "DIFFERENT",
    }


def format_rebuild_statement(manifest: Digest, predicate: Mapping[str, Any]) -> bytes:
    """Return the statement about one image manifest as canonical JSON, ready to be signed."""
    return format_canonical(
        {
            "_type": STATEMENT_TYPE,
            "subject": [{"digest": {"sha256": hex_of(manifest)}}],
            "predicateType": REBUILD_PREDICATE,
            "predicate": dict(predicate),
        }
    )
