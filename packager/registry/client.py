"""The distribution API of one registry: manifests, tags, and the names of everything else (distribution-spec)."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.base.canonical import LIMIT_BYTES, parse_json
from packager.base.digests import Digest, digest_of, parse_digest
from packager.base.errors import InputError, IntegrityError, WorldError
from packager.oci.descriptor import Descriptor, expect_list, expect_object
from packager.oci.manifest import INDEX_TYPES, MANIFEST_TYPES, parse_index, parse_manifest
from packager.registry.auth import Authorizer
from packager.registry.credentials import find_credentials
from packager.registry.exchange import Call, Exchange, StatusError
from packager.registry.http import HttpDoor, Pacing
from packager.registry.origins import join_url, origin_of, registry_origin

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from packager.oci.manifest import Index, Manifest
    from packager.registry.auth import Scopes
    from packager.registry.http import Response

DOCUMENT_TYPES = (*MANIFEST_TYPES, *INDEX_TYPES)
_NEXT = re.compile(r"<([^<>\s]+)>\s*;[^,]*\brel=\"?next\"?")
_REPOSITORY = re.compile(r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*", re.ASCII)
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}", re.ASCII)
_LINK_LIMIT = 8192
_PAGES = 1000
_TAGS_A_PAGE = 1000


@dataclass(frozen=True)
class Document:
    """A manifest or index as it was served: its bytes and the descriptor they hash to."""

    descriptor: Descriptor
    data: bytes

    @property
    def is_index(self) -> bool:
        """Whether this is an index."""
        return self.descriptor.media_type in INDEX_TYPES

    def manifest(self, *, where: str) -> Manifest:
        """Return the document as a manifest, or raise InputError."""
        return parse_manifest(self.data, where=where)

    def index(self, *, where: str) -> Index:
        """Return the document as an index, or raise InputError."""
        return parse_index(self.data, where=where)


class RegistryClient:
    """One registry, spoken to with docker's credentials; plain http only if asked for or on loopback. Thread-safe."""

    def __init__(
        self,
        host: str,
        *,
        insecure: bool | None = None,
        environ: Mapping[str, str] | None = None,
        pacing: Pacing | None = None,
    ) -> None:
        """Speak to `host`; `environ` says where docker's configuration and the CA bundle are (None: `os.environ`)."""
        around = os.environ if environ is None else environ
        self.host = host
        self.home = registry_origin(host, insecure=insecure)
        self._door = HttpDoor(pacing or Pacing(), around)
        authorizer = Authorizer(self._door, self.home, lambda: find_credentials(host, around))
        self.exchange = Exchange(self._door, self.home, authorizer)

    def close(self) -> None:
        """Close all connections."""
        self._door.close()

    def where(self, repository: str, thing: str) -> str:
        """Return how error texts name a thing."""
        return f"{self.host}/{repository}: {thing}"

    def url(self, repository: str, path: str) -> str:
        """Return the URL of a path below a repository, whose name cannot leave its place."""
        if _REPOSITORY.fullmatch(repository) is None:
            raise InputError(f"not the name of a repository: {repository[:120]!r}", where=self.host)
        return f"{self.home.url}/v2/{repository}/{path}"

    def list_tags(self, repository: str) -> list[str]:
        """Return the tags of a repository, sorted; WorldError if it does not exist."""
        where = self.where(repository, "tags")
        call = Call("GET", self.url(repository, f"tags/list?n={_TAGS_A_PAGE}"), where, pull_scope(repository))
        found: set[str] = set()
        for page in self.pages(call, wanted={200}):
            value = parse_json(page.body(LIMIT_BYTES), where=where)
            tags = expect_list(expect_object(value, where=where).get("tags") or [], where=f"{where}.tags")
            if odd := next((tag for tag in tags if not isinstance(tag, str) or not _TAG.fullmatch(tag)), None):
                raise InputError(f"not a tag: {str(odd)[:80]!r}", where=where)
            found.update(tags)
        return sorted(found)

    def head_manifest(self, repository: str, name: str) -> Descriptor | None:
        """Return what a registry says a tag or digest is (unverified: headers only), or None if it is not there."""
        where = self.where(repository, _thing(name))
        with self.exchange.ask(self._manifest_call("HEAD", repository, name), wanted={200, 404}) as response:
            if response.status == 404:  # noqa: PLR2004 - an HTTP status
                return None
            size = response.headers.get("Content-Length", "")
            digest = response.headers.get("Docker-Content-Digest")
            if digest is not None and size.isascii() and size.isdigit():
                return Descriptor(_content_type(response), parse_digest(digest, where=where), int(size[:19]))
        return self.get_manifest(repository, name).descriptor

    def get_manifest(self, repository: str, name: str) -> Document:
        """Return the manifest or index behind a tag or digest; it is what the digest says, and of one kind only."""
        where = self.where(repository, _thing(name))
        with self.exchange.ask(self._manifest_call("GET", repository, name), wanted={200}) as response:
            kind, data = _content_type(response), response.body(LIMIT_BYTES)
            claimed = response.headers.get("Docker-Content-Digest", "")
        digest = digest_of(data)
        expected = name if is_digest(name) else claimed if is_digest(claimed) else digest
        if expected != digest:
            raise IntegrityError(f"expected {expected}, found {digest} ({len(data)} bytes)", where=where)
        if kind not in DOCUMENT_TYPES:
            raise WorldError(f"expected a manifest or an index, found {kind[:120]!r}", where=where)
        document = Document(Descriptor(kind, digest, len(data)), data)
        parsed = document.index(where=where) if document.is_index else document.manifest(where=where)
        if "mediaType" in parse_json(data, where=where) and parsed.media_type != kind:
            raise InputError(f"served as {kind}, but its mediaType is {parsed.media_type}", where=where)
        return document

    def find_manifest(self, repository: str, name: str) -> Document | None:
        """Return what `get_manifest` returns, or None if it is not there."""
        try:
            return self.get_manifest(repository, name)
        except StatusError as error:
            if error.status == 404:  # noqa: PLR2004 - an HTTP status
                return None
            raise

    def put_manifest(self, repository: str, name: str, document: Document) -> bool:
        """Store a manifest under a tag or digest; return whether the registry says that it lists referrers."""
        where = self.where(repository, _thing(name))
        headers = {"Content-Type": document.descriptor.media_type}
        call = Call(
            "PUT", self.url(repository, f"manifests/{name}"), where, push_scope(repository), headers, document.data
        )
        with self.exchange.ask(call, wanted={201}) as response:
            claimed = response.headers.get("Docker-Content-Digest", "")
            keeps = "OCI-Subject" in response.headers
        if is_digest(claimed) and claimed != document.descriptor.digest:
            raise IntegrityError(f"expected {document.descriptor.digest} to be stored, found {claimed}", where=where)
        return keeps

    def pages(self, call: Call, *, wanted: set[int]) -> Iterator[Response]:
        """Yield the pages of a list: `Link` headers are followed within this registry only, and not for ever."""
        seen: set[str] = set()
        url: str | None = call.url
        while url is not None:
            if url in seen or len(seen) == _PAGES:
                raise WorldError("the list of pages does not end", where=call.where)
            seen.add(url)
            page = Call(call.method, url, call.where, call.scopes, call.headers)
            with self.exchange.ask(page, wanted=wanted) as response:
                yield response
                following = next_page(response.headers.get("Link", ""))
            url = join_url(url, following, where=call.where) if following else None
            if url is not None and origin_of(url, where=call.where) != self.home:
                raise WorldError("the next page is at another host", where=call.where)

    def _manifest_call(self, method: str, repository: str, name: str) -> Call:
        headers = {"Accept": ", ".join(DOCUMENT_TYPES)}
        where = self.where(repository, _thing(name))
        return Call(method, self.url(repository, f"manifests/{name}"), where, pull_scope(repository), headers)


def next_page(link: str) -> str | None:
    """Return where a `Link` header says that the next page is (RFC 8288), or None if it says nothing of it."""
    found = _NEXT.search(link[:_LINK_LIMIT])
    return found[1] if found else None


def pull_scope(repository: str) -> Scopes:
    """Return what a token for reading must allow."""
    return frozenset({f"repository:{repository}:pull"})


def push_scope(repository: str, mount_from: str | None = None) -> Scopes:
    """Return what a token for writing must allow, and for reading the repository that a blob is mounted from."""
    return frozenset({f"repository:{repository}:pull,push"}) | (pull_scope(mount_from) if mount_from else frozenset())


def is_digest(name: str) -> bool:
    """Whether a manifest's name is a digest that we can check, and not a tag."""
    try:
        parse_digest(name)
    except InputError:
        return False
    return True


def signature_tag(digest: Digest, suffix: str = "") -> str:
    """Return the tag for what is about `digest`: `sha256-…` lists referrers, with `.sig` it holds signatures."""
    return digest.replace(":", "-", 1) + suffix


def _thing(name: str) -> str:
    if is_digest(name):
        return f"manifest {name}"
    if _TAG.fullmatch(name) is None:
        raise InputError(f"neither a tag nor a digest: {name[:120]!r}", where="reference")
    return f"tag {name}"


def _content_type(response: Response) -> str:
    return response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
