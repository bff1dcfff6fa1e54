"""The lock: every input of one task on one platform, pinned by digest; no host, URL, date or path on disk."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from packager.base.canonical import format_readable, parse_json
from packager.base.digests import Digest, digest_of, parse_digest
from packager.base.errors import InputError
from packager.lock.fields import Fields

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SCHEMA = "wideswe-lock/1"
LIMIT_BYTES = 64 << 20
ORIGINS = ("lock", "recorded")
ROLES = ("target", "context")

_Row = TypeVar("_Row")

_ALIAS = re.compile(r"[a-z][a-z0-9]*", re.ASCII)
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}", re.ASCII)


@dataclass(frozen=True, order=True)
class LockedBlob:
    """One artifact of a registry: the registry's alias, the name it has there, and its bytes."""

    alias: str
    key: str
    digest: Digest
    size: int

    def __post_init__(self) -> None:
        check_key(self.alias, self.key)


@dataclass(frozen=True, order=True)
class LockedBase:
    """The Debian packages that the base layer is made of, in the order of their names; or an image.

    `image` is the digest that the recipe names, `manifest` the platform's own image: the same, unless that is an index.
    """

    suite: str = ""
    packages: tuple[LockedBlob, ...] = ()
    image: Digest | None = None
    manifest: Digest | None = None


@dataclass(frozen=True, order=True)
class LockedShare:
    """The ancestors of one commit as a pack of their own, which tasks that name the same commit have in common."""

    commit: str
    pack_digest: Digest
    pack_size: int


@dataclass(frozen=True, order=True)
class LockedRepo:
    """One repository at one commit, and the canonical pack that the image carries; with `shared`, the rest of it."""

    role: str
    name: str
    commit: str
    tree: str
    pack_digest: Digest
    pack_size: int
    shared: LockedShare | None = None

    def packs(self) -> dict[Digest, int]:
        """Return digest and size of every pack."""
        own = {self.pack_digest: self.pack_size}
        return own if self.shared is None else {self.shared.pack_digest: self.shared.pack_size} | own


@dataclass(frozen=True, order=True)
class LockedToolchain:
    """One toolchain artifact; a kind may have several (`node` comes with `npm`)."""

    kind: str
    version: str
    blob: LockedBlob


@dataclass(frozen=True, order=True)
class LockedFetch:
    """What one step fetched; origin `lock`: a lock file of the project vouches for it, `recorded`: only we saw it."""

    step: str
    blob: LockedBlob
    media_type: str
    purl: str
    origin: str


@dataclass(frozen=True, order=True)
class AbsentFetch:
    """What one step asked for and must not get: the registry did not have it, or the step took nothing from it."""

    step: str
    alias: str
    key: str

    def __post_init__(self) -> None:
        check_key(self.alias, self.key)


@dataclass(frozen=True)
class LockedFiles:
    """Digests of the prompt and, by target, of the gold patch and of the tar of hidden files.

    `manifests` has the targets whose gold changes what dependency commands read: the tar of the manifests after gold.
    """

    prompt: Digest
    gold: Mapping[str, Digest]
    hidden: Mapping[str, Digest]
    manifests: Mapping[str, Digest] = field(default_factory=dict)


@dataclass(frozen=True)
class Lock:
    """All inputs of one task on one platform; sequences are sorted at birth, twins are refused."""

    task: str
    platform: str
    recipe: Digest
    dockerfile: Digest
    base: LockedBase
    files: LockedFiles
    ids: Mapping[str, str] = field(default_factory=dict)
    repos: tuple[LockedRepo, ...] = ()
    toolchains: tuple[LockedToolchain, ...] = ()
    fetches: tuple[LockedFetch, ...] = ()
    absent: tuple[AbsentFetch, ...] = ()

    def __post_init__(self) -> None:
        packages = _sorted_unique(self.base.packages, "base.packages", _blob_name)
        object.__setattr__(self, "base", replace(self.base, packages=packages))
        for name, identify in _IDENTITIES.items():
            object.__setattr__(self, name, _sorted_unique(getattr(self, name), name, identify))

    def blobs(self) -> tuple[LockedBlob, ...]:
        """Return every artifact of a registry that a build needs, once, sorted."""
        tools = (toolchain.blob for toolchain in self.toolchains)
        return tuple(sorted({*self.base.packages, *tools, *(fetch.blob for fetch in self.fetches)}))

    def digest(self) -> Digest:
        """Return the digest of the lock's canonical bytes: the id of all inputs."""
        return digest_of(format_lock(self))


def check_key(alias: str, key: str) -> None:
    """Refuse an alias or key that could name a host, leave its registry or hide in a listing."""
    parts = key.split("/")
    bad = not key or key.startswith("/") or ".." in parts or "." in parts or "://" in key or not key.isprintable()
    if _ALIAS.fullmatch(alias) is None or bad:
        raise InputError(f"expected a registry alias and a plain key, found {alias[:40]!r} and {key[:120]!r}")


def format_lock(lock: Lock) -> bytes:
    """Return the canonical JSON of a lock, indented so that a review sees one change a line."""
    return format_readable(
        {
            "schema": SCHEMA,
            "task": lock.task,
            "platform": lock.platform,
            "recipe": lock.recipe,
            "dockerfile": lock.dockerfile,
            "ids": dict(lock.ids),
            "base": _format_base(lock.base),
            "repos": [_format_repo(repo) for repo in lock.repos],
            "toolchains": [{"kind": t.kind, "version": t.version, **_format_blob(t.blob)} for t in lock.toolchains],
            "fetches": [_format_fetch(fetch) for fetch in lock.fetches],
            "absent": [{"step": row.step, "alias": row.alias, "key": row.key} for row in lock.absent],
            "files": _format_files(lock.files),
        }
    )


def parse_lock(data: bytes, *, where: str = "lock") -> Lock:
    """Parse the bytes of a lock; unknown or missing keys, twins and bytes that are not canonical are refused."""
    fields = Fields(parse_json(data, where=where, limit=LIMIT_BYTES), where)
    fields.expect("schema", SCHEMA)
    base, files = fields.fields("base"), fields.fields("files")
    lock = Lock(
        task=fields.text("task"),
        platform=fields.text("platform"),
        recipe=fields.digest("recipe"),
        dockerfile=fields.digest("dockerfile"),
        ids=fields.texts("ids"),
        base=_parse_base(base),
        repos=tuple(_parse_repo(row) for row in fields.rows("repos")),
        toolchains=tuple(_parse_toolchain(row) for row in fields.rows("toolchains")),
        fetches=tuple(_parse_fetch(row) for row in fields.rows("fetches")),
        absent=tuple(_parse_absent(row) for row in fields.rows("absent")),
        files=_parse_files(files),
    )
    for part in (fields, base, files):
        part.finish()
    if format_lock(lock) != data:
        raise InputError(
            "expected the lock as wideswe-pack writes it, found other bytes of the same meaning",
            where=where,
            hint="write it again with `wideswe-pack lock`; a lock is not edited by hand",
        )
    return lock


def _format_base(base: LockedBase) -> dict[str, Any]:
    if base.image is not None:
        return {"image": base.image, "manifest": base.manifest}
    return {"suite": base.suite, "packages": [_format_blob(blob) for blob in base.packages]}


def _parse_base(base: Fields) -> LockedBase:
    if base.has("image"):
        return LockedBase(image=base.digest("image"), manifest=base.digest("manifest"))
    return LockedBase(base.text("suite"), tuple(_parse_blob(row) for row in base.rows("packages")))


def _format_files(files: LockedFiles) -> dict[str, Any]:
    found: dict[str, Any] = {"prompt": files.prompt, "gold": dict(files.gold), "hidden": dict(files.hidden)}
    return found | ({"manifests": dict(files.manifests)} if files.manifests else {})


def _parse_files(files: Fields) -> LockedFiles:
    manifests = _digests(files, "manifests") if files.has("manifests") else {}
    return LockedFiles(files.digest("prompt"), _digests(files, "gold"), _digests(files, "hidden"), manifests)


def _format_blob(blob: LockedBlob) -> dict[str, Any]:
    return {"alias": blob.alias, "key": blob.key, "digest": blob.digest, "size": blob.size}


def _format_repo(repo: LockedRepo) -> dict[str, Any]:
    return {
        "role": repo.role,
        "name": repo.name,
        "commit": repo.commit,
        "tree": repo.tree,
        **_format_pack(repo),
        **({} if repo.shared is None else {"shared": {"commit": repo.shared.commit, **_format_pack(repo.shared)}}),
    }


def _format_pack(packed: LockedRepo | LockedShare) -> dict[str, Any]:
    return {"pack": {"digest": packed.pack_digest, "size": packed.pack_size}}


def _format_fetch(fetch: LockedFetch) -> dict[str, Any]:
    return {
        "step": fetch.step,
        "media_type": fetch.media_type,
        "purl": fetch.purl,
        "origin": fetch.origin,
        **_format_blob(fetch.blob),
    }


def _take_blob(row: Fields) -> LockedBlob:
    alias, key, digest, size = row.text("alias"), row.text("key"), row.digest("digest"), row.size("size")
    try:
        return LockedBlob(alias, key, digest, size)
    except InputError as error:
        raise InputError(error.reason, where=row.where) from error


def _parse_blob(row: Fields) -> LockedBlob:
    blob = _take_blob(row)
    row.finish()
    return blob


def _parse_repo(row: Fields) -> LockedRepo:
    digest, size = _parse_pack(row)
    repo = LockedRepo(
        role=row.choice("role", ROLES),
        name=row.text("name"),
        commit=row.matching("commit", _COMMIT, "a full commit id"),
        tree=row.matching("tree", _COMMIT, "a full tree id"),
        pack_digest=digest,
        pack_size=size,
        shared=_parse_share(row.fields("shared")) if row.has("shared") else None,
    )
    row.finish()
    return repo


def _parse_share(row: Fields) -> LockedShare:
    share = LockedShare(row.matching("commit", _COMMIT, "a full commit id"), *_parse_pack(row))
    row.finish()
    return share


def _parse_pack(row: Fields) -> tuple[Digest, int]:
    pack = row.fields("pack")
    found = pack.digest("digest"), pack.size("size")
    pack.finish()
    return found


def _parse_toolchain(row: Fields) -> LockedToolchain:
    toolchain = LockedToolchain(row.text("kind"), row.text("version"), _take_blob(row))
    row.finish()
    return toolchain


def _parse_fetch(row: Fields) -> LockedFetch:
    fetch = LockedFetch(
        step=row.text("step"),
        blob=_take_blob(row),
        media_type=row.text("media_type"),
        purl=row.text("purl"),
        origin=row.choice("origin", ORIGINS),
    )
    row.finish()
    return fetch


def _parse_absent(row: Fields) -> AbsentFetch:
    step, alias, key = row.text("step"), row.text("alias"), row.text("key")
    row.finish()
    try:
        return AbsentFetch(step, alias, key)
    except InputError as error:
        raise InputError(error.reason, where=row.where) from error


def _digests(fields: Fields, name: str) -> dict[str, Digest]:
    where = f"{fields.where}: {name}"
    return {key: parse_digest(value, where=f"{where}.{key}") for key, value in fields.texts(name).items()}


def _blob_name(blob: LockedBlob) -> tuple[str, ...]:
    return (blob.alias, blob.key)


_IDENTITIES: dict[str, Callable[[Any], tuple[str, ...]]] = {
    "repos": lambda repo: (repo.name,),
    "toolchains": lambda toolchain: (toolchain.kind, toolchain.version, toolchain.blob.key),
    "fetches": lambda fetch: (fetch.step, fetch.blob.alias, fetch.blob.key),
    "absent": lambda row: (row.step, row.alias, row.key),
}


def _sorted_unique(rows: tuple[_Row, ...], name: str, identify: Callable[[_Row], tuple[str, ...]]) -> tuple[_Row, ...]:
    ordered = sorted(rows, key=identify)
    for one, other in itertools.pairwise(ordered):
        if identify(one) == identify(other):
            raise InputError(f"expected each row once, found twice: {' '.join(identify(one))}", where=name)
    return tuple(ordered)
