"""SLSA provenance v1 from a lock: every locked input as a resolved dependency, and nothing that betrays the answer.

Left out on purpose: digests of gold patches, hidden tests, the recipe and the lock. They could confirm a guess. Times
and run ids are left out too, so that the same image and lock give the same bytes (slsa.dev/spec/v1.0/provenance).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packager import __version__
from packager.base.digests import hex_of
from packager.lock.ecosystems.known import make_ecosystems
from packager.lock.ecosystems.web import purl_of
from packager.oci.entries import SOURCE_DATE_EPOCH

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from packager.base.digests import Digest
    from packager.lock.model import Lock, LockedBlob, LockedRepo

BUILD_TYPE = "https://wideswe.dev/build/v1"
BUILDER_ID = "https://wideswe.dev/pack"
BYPRODUCTS = ("content id", "environment id", "sealed file")


def make_provenance(lock: Lock, *, repositories: Mapping[str, str], byproducts: Mapping[str, Digest]) -> dict[str, Any]:
    """Return the predicate; `repositories` are URLs by name where a recipe gives any, `byproducts` digests by name."""
    repos = [_repository(repo, repositories.get(repo.name, "")) for repo in lock.repos]
    blobs = [_artifact(blob) for blob in lock.blobs()]
    return {
        "buildDefinition": {
            "buildType": BUILD_TYPE,
            "externalParameters": {
                "taskId": lock.task,
                "platform": lock.platform,
                "sourceDateEpoch": SOURCE_DATE_EPOCH,
                "repositories": [{"name": repo.name, "role": repo.role, "commit": repo.commit} for repo in lock.repos],
            },
            "internalParameters": dict(lock.ids),
            "resolvedDependencies": [*_base_image(lock), *repos, *blobs, _sha256("prompt", lock.files.prompt)],
        },
        "runDetails": {
            "builder": {"id": BUILDER_ID, "version": {"wideswe-pack": __version__}},
            "byproducts": [_sha256(name, byproducts[name]) for name in BYPRODUCTS if name in byproducts],
        },
    }


def purl_of_blob(blob: LockedBlob) -> str:
    """Return the package URL of a locked artifact (purl-spec)."""
    ecosystem = make_ecosystems().get(blob.alias)
    return purl_of(blob.key) if ecosystem is None else ecosystem.purl(blob.key)


def _base_image(lock: Lock) -> Iterator[dict[str, Any]]:
    for name, digest in (("base image", lock.base.image), ("base manifest", lock.base.manifest)):
        if digest is not None:
            yield _sha256(name, digest)


def _repository(repo: LockedRepo, url: str) -> dict[str, Any]:
    packs: dict[str, Any] = {"packSha256": hex_of(repo.pack_digest), "packSize": repo.pack_size}
    if repo.shared is not None:
        packs |= {"sharedCommit": repo.shared.commit, "sharedPackSha256": hex_of(repo.shared.pack_digest)}
    found: dict[str, Any] = {
        "name": repo.name,
        "digest": {"gitCommit": repo.commit, "gitTree": repo.tree},
        "annotations": packs,
    }
    return {**found, "uri": f"git+{url}@{repo.commit}"} if url.startswith("https://") else found


def _artifact(blob: LockedBlob) -> dict[str, Any]:
    return {**_sha256(f"{blob.alias}/{blob.key}", blob.digest), "uri": purl_of_blob(blob)}


def _sha256(name: str, digest: Digest) -> dict[str, Any]:
    return {"name": name, "digest": {"sha256": hex_of(digest)}}
