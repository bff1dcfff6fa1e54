"""What refers to a manifest: the referrers API, and the tag that stands in for it (distribution-spec, Referrers)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from packager.base.canonical import LIMIT_BYTES
from packager.base.errors import IntegrityError, WorldError
from packager.oci.descriptor import describe
from packager.oci.manifest import MEDIA_INDEX, Index, format_index, parse_index
from packager.registry.client import Document, pull_scope, signature_tag
from packager.registry.exchange import Call

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from packager.base.digests import Digest
    from packager.oci.descriptor import Descriptor
    from packager.registry.client import RegistryClient

MAX_REFERRERS = 64
"""An endless list from a registry must not become an endless pull (CVE-2023-46737)."""

_NO_API = frozenset({400, 404, 405, 406, 501})


def list_referrers(client: RegistryClient, repository: str, subject: Digest) -> list[Descriptor]:
    """Return the manifests that are said to refer to `subject`, each once; the list is not to be trusted.

    The API and the fallback tag are both read: registries have lost one or the other (harbor#18865,
    hub-feedback#2372), and neither is filtered, since artifact types in them are often wrong
    (go-containerregistry#2269).
    """
    where = client.where(repository, f"referrers of {subject}")
    found: dict[Digest, Descriptor] = {}
    for entry in (*read_api(client, repository, subject), *read_fallback(client, repository, subject)):
        found.setdefault(entry.digest, entry)
    if len(found) > MAX_REFERRERS:
        raise _too_many(len(found), where=where)
    return list(found.values())


def read_api(client: RegistryClient, repository: str, subject: Digest) -> list[Descriptor]:
    """Return what the referrers API lists; nothing if the registry has no such API."""
    where = client.where(repository, f"referrers of {subject}")
    call = Call(
        "GET",
        client.url(repository, f"referrers/{subject}"),
        where,
        pull_scope(repository),
        {"Accept": MEDIA_INDEX},
    )
    found: list[Descriptor] = []
    for page in client.pages(call, wanted={200, *_NO_API}):
        kind = page.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if page.status != 200 or kind != MEDIA_INDEX:  # noqa: PLR2004 - an HTTP status
            break
        found += parse_index(page.body(LIMIT_BYTES), where=where).manifests
        if len(found) > MAX_REFERRERS:
            break
    return found


def read_fallback(client: RegistryClient, repository: str, subject: Digest) -> tuple[Descriptor, ...]:
    """Return what the index under the fallback tag lists; nothing if there is no such tag, or no index behind it."""
    document = client.find_manifest(repository, signature_tag(subject))
    if document is None or not document.is_index:
        return ()
    return document.index(where=client.where(repository, f"tag {signature_tag(subject)}")).manifests


def fetch_referrer(client: RegistryClient, repository: str, entry: Descriptor, subject: Digest) -> Document | None:
    """Return the manifest behind an entry after checking that it refers to `subject`; None if it is gone.

    Also None for an index that refers to an image: it has no blobs of its own and we know none that matters.
    """
    where = client.where(repository, f"referrer {entry.digest}")
    document = client.find_manifest(repository, entry.digest)
    if document is None:
        return None
    if document.descriptor.size != entry.size:
        reason = f"expected {entry.size} bytes, found {document.descriptor.size}"
        raise IntegrityError(reason, where=where)
    if document.is_index:
        return None
    found = document.manifest(where=where).subject
    if found is None or found.digest != subject:
        named = found.digest if found else "nothing"
        raise IntegrityError(f"expected it to refer to {subject}, found that it refers to {named}", where=where)
    return document


def referrer_entry(document: Document, *, where: str) -> Descriptor:
    """Return the descriptor by which a referrer is listed: with its artifact type and annotations."""
    manifest = document.manifest(where=where)
    kind = manifest.artifact_type or manifest.config.media_type
    return replace(document.descriptor, artifact_type=kind, annotations=manifest.annotations)


def announce(client: RegistryClient, repository: str, subject: Digest, documents: Sequence[Document]) -> None:
    """Make sure that readers find referrers that are pushed already: through the API, or else the fallback tag.

    What a registry says of itself (OCI-Subject) is not enough; the lists are read back. The tag is shared and has no
    lock: it is read again after writing, and written again if another writer was faster.
    """
    where = client.where(repository, f"tag {signature_tag(subject)}")
    wanted = [referrer_entry(document, where=where) for document in documents]
    pacing = client.exchange.pacing
    if not _missing(wanted, read_api(client, repository, subject)):
        return
    for attempt in range(pacing.attempts):
        if not _add_to_fallback(client, repository, subject, wanted):
            return
        if not _missing(wanted, read_fallback(client, repository, subject)):
            return
        pacing.wait(attempt)
    hint = "somebody else writes the same tag all the time; push again when they are done"
    raise WorldError("the list of referrers does not keep what we write", where=where, hint=hint, retryable=True)


def _add_to_fallback(client: RegistryClient, repository: str, subject: Digest, wanted: Sequence[Descriptor]) -> bool:
    """Write what is missing into the index under the fallback tag; return whether anything was."""
    where = client.where(repository, f"tag {signature_tag(subject)}")
    document = client.find_manifest(repository, signature_tag(subject))
    if document is not None and not document.is_index:
        hint = "the tag is reserved for the list of referrers; remove what was pushed there"
        raise WorldError(f"expected an index, found {document.descriptor.media_type}", where=where, hint=hint)
    before = Index(()) if document is None else document.index(where=where)
    missing = _missing(wanted, before.manifests)
    if not missing:
        return False
    if len(before.manifests) + len(missing) > MAX_REFERRERS:
        raise _too_many(len(before.manifests) + len(missing), where=where)
    data = format_index(replace(before, manifests=(*before.manifests, *missing)))
    client.put_manifest(repository, signature_tag(subject), Document(describe(before.media_type, data), data))
    return True


def _too_many(count: int, *, where: str) -> WorldError:
    hint = "remove referrers that are no longer needed, or keep them in another repository"
    return WorldError(f"expected at most {MAX_REFERRERS} referrers, found {count}", where=where, hint=hint)


def _missing(wanted: Iterable[Descriptor], present: Iterable[Descriptor]) -> list[Descriptor]:
    digests = {entry.digest for entry in present}
    return [entry for entry in wanted if entry.digest not in digests]
