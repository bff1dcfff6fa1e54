"""The verbs of those who may open a seal: grant, open, and the parts of the root secret."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from packager.api.place import ROOT_SECRET, SUITE, Place
from packager.api.sealed import open_sealed
from packager.api.trusted import ImageQuestion, Trust, refuse_unverified
from packager.base.errors import InputError, UsageError
from packager.base.files import full_disk_trouble, is_there, write_atomic
from packager.base.progress import Progress, silent

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from packager.oci.record import ImageRecord
    from packager.seal.bundle import SealContents
    from packager.seal.identities import RootSecret


@dataclass(frozen=True)
class Granted:
    """How many grants an image has now, in how many artifacts."""

    task: str
    manifest: str
    grants: int
    artifacts: int


@dataclass(frozen=True)
class Opened:
    """What a seal holds, laid out in a folder."""

    task: str
    folder: str
    files: tuple[str, ...]


@dataclass(frozen=True)
class SecretFiles:
    """A root secret's fingerprint and the files that it, or its parts, are in."""

    fingerprint: str
    files: tuple[str, ...]


@full_disk_trouble("grant")
def grant(place: Place, task: str, recipients: Sequence[str]) -> Granted:
    """Hand a task's key to evaluators; the image stays as it is, push it again to publish the grants."""
    from packager.oci.record import format_record
    from packager.seal.grants import count_grants

    if not recipients:
        raise UsageError("nobody to grant the task to", hint="--to age1…")
    store = place.store()
    with store.lease():
        record = with_grants(place, task, place.record(task), recipients)
        store.set_name("images", task, format_record(record))
        return Granted(task, record.manifest.digest, count_grants(store, record.grants), len(record.grants))


def with_grants(place: Place, task: str, record: ImageRecord, recipients: Sequence[str]) -> ImageRecord:
    """Return a record with grants for evaluators; equal ones are not added again, and all stand in one artifact."""
    from packager.seal.grants import add_grants
    from packager.seal.identities import make_grants, read_root, task_identity

    root = read_root(place.keys / ROOT_SECRET)
    identity, _ = task_identity(root, SUITE, task)
    made = make_grants(identity, recipients, comment=f"image: {record.manifest.digest}", root=root)
    return replace(record, grants=tuple(add_grants(place.store(), record.manifest, record.grants, made)))


@full_disk_trouble("open")
def open_task(  # noqa: PLR0913 - what, where to, by whose word and with which key
    place: Place,
    task: str,
    into: Path,
    *,
    trust: Trust | None = None,
    evaluator: Path | None = None,
    progress: Progress = silent,
) -> Opened:
    """Verify a task's image, open its seal with a grant, and lay out what it holds in a new folder."""
    from packager.evaluate.judge import read_image

    store, record = place.store(), place.record(task)
    verified = ImageQuestion(place, record, task, trust or Trust()).ask(recall=True, progress=progress)
    refuse_unverified(verified.checks, task)
    return _lay_out(open_sealed(place, store, read_image(store, record), task, evaluator=evaluator), into)


def _lay_out(contents: SealContents, into: Path) -> Opened:
    """Write what a seal holds into a new folder that only its owner can read."""
    from packager.base.canonical import format_readable
    from packager.base.paths import parse_relative

    if is_there(into):
        raise InputError("exists already and is not written over", where=str(into))
    files: dict[str, tuple[int, bytes]] = {f"gold/{name}.patch": (0o600, data) for name, data in contents.gold.items()}
    for target, hidden in contents.hidden.items():
        files |= {f"hidden/{target}/{path}": found for path, found in hidden.items()}
    if contents.expected is not None:
        files["expected.json"] = 0o600, format_readable({name: dict(rows) for name, rows in contents.expected.items()})
    if contents.profile:
        files["evaluation.json"] = 0o600, contents.profile
    into.mkdir(parents=True, mode=0o700)
    links = {name: data for name, (mode, data) in files.items() if mode not in (0o600, 0o644, 0o755)}
    for name, (mode, data) in sorted(files.items()):
        if name not in links:
            write_atomic(into / parse_relative(name, where="seal"), data, mode=mode & 0o700)
    for name, data in sorted(links.items()):  # last: no file is ever written through one
        path = into / parse_relative(name, where="seal")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(os.fsdecode(data))
    return Opened(contents.task, str(into), tuple(sorted(files)))


@full_disk_trouble("secret split")
def split_secret(place: Place, parts: int, into: Path) -> SecretFiles:
    """Write the root secret in parts, all of which are needed to have it again."""
    from packager.seal.shares import fingerprint_of, split_root, write_share

    root = _root(place)
    shares = split_root(root, parts)
    paths = [into / f"share-{share.number}-of-{share.total}.key" for share in shares]
    for path, share in zip(paths, shares, strict=True):
        write_share(path, share)
    return SecretFiles(fingerprint_of(root), tuple(map(str, paths)))


@full_disk_trouble("secret join")
def join_secret(place: Place, paths: Sequence[Path]) -> SecretFiles:
    """Put the root secret of its parts into the keys folder, where none may be yet."""
    from packager.seal.identities import write_root
    from packager.seal.shares import fingerprint_of, join_shares, read_share

    if not paths:
        raise UsageError("no parts named", hint="wideswe-pack secret join share-1-of-2.key share-2-of-2.key")
    root = join_shares([read_share(path) for path in paths])
    write_root(place.keys / ROOT_SECRET, root)
    return SecretFiles(fingerprint_of(root), (str(place.keys / ROOT_SECRET),))


@full_disk_trouble("secret rotate")
def rotate_secret(place: Place) -> SecretFiles:
    """Set the root secret aside under its fingerprint and make a new one: the next build gives new digests."""
    from packager.seal.identities import create_root, write_root
    from packager.seal.shares import fingerprint_of

    old = _root(place)
    aside = place.keys / f"root.{fingerprint_of(old)}.key"
    if not is_there(aside):
        write_root(aside, old)
    (place.keys / ROOT_SECRET).unlink()
    root = create_root()
    write_root(place.keys / ROOT_SECRET, root)
    return SecretFiles(fingerprint_of(root), (str(place.keys / ROOT_SECRET), str(aside)))


def _root(place: Place) -> RootSecret:
    from packager.seal.identities import read_root

    path = place.keys / ROOT_SECRET
    if not is_there(path):
        raise InputError("there is no suite root secret", where=str(path), hint="wideswe-pack keygen")
    return read_root(path)
