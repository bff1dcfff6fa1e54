"""The verbs that carry images: keygen, sign, push, pull, verify."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from packager.api.place import EVALUATOR_KEY, RELEASE_KEY, RELEASE_PUBLIC_KEY, ROOT_SECRET, SUITE, VERSION, Place
from packager.base.errors import InputError
from packager.base.files import full_disk_trouble
from packager.base.progress import Progress, silent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.trust.keys import PublicKey
    from packager.trust.verify import Check


@dataclass(frozen=True)
class Shipped:
    """A task's image under a published name."""

    task: str
    reference: str
    manifest: str


@full_disk_trouble("keygen")
def keygen(place: Place) -> tuple[Path, ...]:
    """Make the keys that are not there yet; the release key is encrypted with WIDESWE_PASSWORD (may be empty)."""
    from packager.seal.identities import create_evaluator_key, create_root, write_identity, write_root
    from packager.trust.keyfiles import read_password, write_key_pair
    from packager.trust.keys import create_private_key

    place.keys.mkdir(parents=True, exist_ok=True, mode=0o700)
    paths = tuple(place.keys / name for name in (RELEASE_KEY, RELEASE_PUBLIC_KEY, ROOT_SECRET, EVALUATOR_KEY))
    if not paths[0].exists():
        write_key_pair(paths[0], paths[1], create_private_key(), read_password(os.environ))
    if not paths[2].exists():
        write_root(paths[2], create_root())
    if not paths[3].exists():
        write_identity(paths[3], create_evaluator_key()[0])
    return paths


@full_disk_trouble("sign")
def sign(place: Place, task: str, *, home: str, version: str = VERSION, grant_to: Sequence[str] = ()) -> Shipped:
    """Sign a task's image under its published name, and grant the evaluators the task's key."""
    from packager.oci.record import format_record
    from packager.seal.grants import put_grant
    from packager.seal.identities import make_grant, read_identities, read_root, task_identity
    from packager.seal.keys import recipient_of
    from packager.trust.keyfiles import read_password, read_private_key
    from packager.trust.signatures import sign_image

    store, record = place.store(), place.record(task)
    reference = f"{home.rstrip('/')}/{task}:{version}"
    key = read_private_key(place.keys / RELEASE_KEY, read_password(os.environ))
    with store.lease():
        signed = sign_image(record.manifest, reference, key, store).added_to(record)
        own = (
            [recipient_of(identity) for identity in read_identities(place.keys / EVALUATOR_KEY)] if not grant_to else []
        )
        identity, _ = task_identity(read_root(place.keys / ROOT_SECRET), SUITE, task)
        grant = make_grant(identity, [*grant_to, *own], comment=f"image: {record.manifest.digest}")
        granted = replace(signed, grants=(*signed.grants, put_grant(store, record.manifest, grant)))
        store.set_name("images", task, format_record(granted))
    return Shipped(task, reference, record.manifest.digest)


@full_disk_trouble("push")
def push(place: Place, task: str, *, namespace: str, version: str = VERSION, progress: Progress = silent) -> Shipped:
    """Push a task's image with signatures and grants; its tag appears when all else is there."""
    from packager.oci.reference import parse_reference
    from packager.registry.push import push_image

    record = place.record(task)
    reference = parse_reference(f"{namespace.rstrip('/')}/{task}:{version}")
    digest = push_image(place.store(), record, reference, progress=progress)
    return Shipped(task, str(reference), digest)


@full_disk_trouble("pull")
def pull(place: Place, reference: str, *, progress: Progress = silent) -> Shipped:
    """Pull an image with signatures and grants; its task is the last part of the repository's name."""
    from packager.oci.record import format_record
    from packager.oci.reference import parse_reference
    from packager.registry.pull import pull_image

    parsed = parse_reference(reference)
    store, task = place.store(), parsed.repository.rpartition("/")[2]
    store.sweep()
    with store.lease():
        record = pull_image(parsed, store, progress=progress)
        store.set_name("images", task, format_record(record))
    return Shipped(task, reference, record.manifest.digest)


@full_disk_trouble("verify")
def verify(
    place: Place,
    task: str,
    *,
    public_keys: Sequence[str] = (),
    identity: str | None = None,
    progress: Progress = silent,
) -> tuple[Check, ...]:
    """Check a task's image; the list ends in yes or at the first no."""
    from packager.trust.verify import verify_image

    keys = trusted_keys(place, public_keys)
    checks = verify_image(place.record(task), place.store(), public_keys=keys, reference=identity, progress=progress)
    return tuple(checks)


def trusted_keys(place: Place, public_keys: Sequence[str]) -> list[PublicKey]:
    """Return the named public keys, or the release key in the keys folder; none at all is an InputError."""
    from packager.trust.keyfiles import read_public_key

    paths = [Path(path) for path in public_keys] or [place.keys / RELEASE_PUBLIC_KEY]
    missing = [path for path in paths if not path.is_file()]
    if missing:
        raise InputError("there is no public key to verify with", where=str(missing[0]), hint="--key FILE")
    return [read_public_key(path) for path in paths]
