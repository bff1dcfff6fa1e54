"""A bill of materials in SPDX 2.3 from a lock: every package of every ecosystem by its package URL, once.

Licences are what artifacts declare, where the caller has them, else NOASSERTION: a wrong licence is worse than none
(spdx.github.io/spdx-spec/v2.3). Nothing is concluded.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from packager import __version__
from packager.base.digests import hex_of
from packager.oci.config import CREATED
from packager.trust.provenance import purl_of_blob

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packager.base.digests import Digest
    from packager.lock.model import Lock, LockedBlob, LockedRepo

_NAMESPACE = "https://wideswe.dev/spdx"
_NO = "NOASSERTION"
_IMAGE = "SPDXRef-Image"
_PURL = re.compile(r"pkg:[a-z]+/(?P<name>[^@?]+)(?:@(?P<version>[^?]+))?")
_SMALL = (".mod", ".info")


@dataclass(frozen=True)
class _Package:
    """One package: its package URL, the file that it is (of a Go module the zip), and that file's digest."""

    purl: str
    file: str = ""
    digest: Digest | None = None


def make_sbom(
    lock: Lock, image: Digest, *, repositories: Mapping[str, str], licences: Mapping[Digest, str] | None = None
) -> dict[str, Any]:
    """Return the SPDX document of one image; `repositories` are URLs by name where a recipe gives any.

    `licences` are the expressions that artifacts declare, by their digests.
    """
    found = _packages(lock)
    found.update({p.purl: p for p in (_repository(repo, repositories.get(repo.name, "")) for repo in lock.repos)})
    if lock.base.image is not None:
        found[f"pkg:oci/base@{lock.base.image}"] = _Package(f"pkg:oci/base@{lock.base.image}", "", lock.base.image)
    top = _Package(f"pkg:oci/{lock.task}@{image}", "", image)
    known = licences or {}
    packages = [_format(package, known) for _, package in sorted(found.items())]
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"{lock.task} {lock.platform}",
        "documentNamespace": f"{_NAMESPACE}/{lock.task}/{hex_of(image)}",
        "creationInfo": {"created": CREATED, "creators": [f"Tool: wideswe-pack-{__version__}"]},
        "packages": [{**_format(top, known), "SPDXID": _IMAGE, "primaryPackagePurpose": "CONTAINER"}, *packages],
        "relationships": [
            _relation("SPDXRef-DOCUMENT", "DESCRIBES", _IMAGE),
            *(_relation(_IMAGE, "CONTAINS", package["SPDXID"]) for package in packages),
        ],
    }


def _packages(lock: Lock) -> dict[str, _Package]:
    """Return the artifacts of registries by package URL; of several files of one package the archive speaks for it."""
    found: dict[str, _Package] = {}
    named = {fetch.blob: fetch.purl for fetch in lock.fetches if fetch.purl}
    for blob in sorted(lock.blobs(), key=lambda blob: (blob.key.endswith(_SMALL), -blob.size, blob)):
        purl = named.get(blob) or purl_of_blob(blob)
        found.setdefault(purl, _Package(purl, _file_name(blob), blob.digest))
    return found


def _file_name(blob: LockedBlob) -> str:
    return f"{blob.alias}/{blob.key}"


def _repository(repo: LockedRepo, url: str) -> _Package:
    host = re.fullmatch(r"https://github\.com/([^/]+)/([^/]+?)(?:\.git)?/?", url)
    owner = f"github/{host[1]}/{host[2]}".lower() if host else f"generic/{repo.name}"
    return _Package(f"pkg:{owner}@{repo.commit}")


def _format(package: _Package, licences: Mapping[Digest, str]) -> dict[str, Any]:
    parts = _PURL.match(package.purl)
    name, version = (parts["name"], parts["version"]) if parts else (package.purl, None)
    fields: dict[str, Any] = {
        "SPDXID": f"SPDXRef-Package-{hashlib.sha256(package.purl.encode()).hexdigest()[:32]}",
        "name": unquote(name),
        "downloadLocation": _NO,
        "filesAnalyzed": False,
        "licenseConcluded": _NO,
        "licenseDeclared": _NO if package.digest is None else licences.get(package.digest, _NO),
        "copyrightText": _NO,
        "externalRefs": [
            {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": package.purl}
        ],
    }
    if version:
        fields["versionInfo"] = unquote(version)
    if package.file:
        fields["packageFileName"] = package.file
    if package.digest is not None:
        fields["checksums"] = [{"algorithm": "SHA256", "checksumValue": hex_of(package.digest)}]
    return fields


def _relation(one: str, kind: str, other: str) -> dict[str, str]:
    return {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}
