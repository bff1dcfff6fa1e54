"""The verbs that carry images: keygen, sign, push, pull, verify."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from packager.api.place import EVALUATOR_KEY, RELEASE_KEY, RELEASE_PUBLIC_KEY, ROOT_SECRET, SUITE, VERSION, Place
from packager.base.errors import InputError, UsageError
from packager.base.files import full_disk_trouble, is_there, write_atomic
from packager.base.progress import Progress, silent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.oci.record import ImageRecord
    from packager.store.store import Store
    from packager.trust.keys import PublicKey
    from packager.trust.verify import Check


@dataclass(frozen=True)
class Shipped:
    """A task's image under a published name."""

    task: str
    reference: str
    manifest: str


@dataclass(frozen=True)
class Keys:
    """Where keys lie, and the public key (age1…) of the evaluator, which a suite's authors grant a task to."""

    files: tuple[Path, ...]
    recipients: tuple[str, ...]


@full_disk_trouble("keygen")
def keygen(place: Place, *, evaluator_only: bool = False) -> Keys:
    """Make the keys that are not there yet; the release key is encrypted with the place's password (may be empty).

    A lab needs the evaluator key only: it verifies with the authors' release.pub and has no suite of its own.
    """
    from packager.seal.identities import create_evaluator_key, create_root, read_identities, write_identity, write_root
    from packager.seal.keys import recipient_of

    place.keys.mkdir(parents=True, exist_ok=True, mode=0o700)
    release, public, root, evaluator = (
        place.keys / name for name in (RELEASE_KEY, RELEASE_PUBLIC_KEY, ROOT_SECRET, EVALUATOR_KEY)
    )
    if not evaluator_only and not (release.exists() and public.exists()):
        _make_release_key(place, release, public)
    if not evaluator_only and not root.exists():
        write_root(root, create_root())
    if not evaluator.exists():
        write_identity(evaluator, create_evaluator_key()[0])
    files = (evaluator,) if evaluator_only else (release, public, root, evaluator)
    return Keys(files, tuple(recipient_of(identity) for identity in read_identities(evaluator)))


def _make_release_key(place: Place, private: Path, public: Path) -> None:
    from packager.trust.keyfiles import read_private_key, write_key_pair
    from packager.trust.keys import create_private_key

    if private.exists():  # an earlier call was killed between the two files
        write_atomic(public, read_private_key(private, place.release_password()).public.pem)
        return
    write_key_pair(private, public, create_private_key(), place.release_password())


@full_disk_trouble("sign")
def sign(place: Place, task: str, *, home: str, version: str = VERSION, grant_to: Sequence[str] = ()) -> Shipped:
    """Sign a task's image under its published name, and grant the evaluators the task's key.

    Earlier grants stay and an equal one is not added again; earlier signatures are replaced.
    """
    from packager.oci.record import format_record
    from packager.seal.grants import put_grant
    from packager.seal.identities import make_grant, read_identities, read_root, task_identity
    from packager.seal.keys import recipient_of
    from packager.trust.keyfiles import read_private_key
    from packager.trust.signatures import sign_image

    store, record = place.store(), place.record(task)
    reference = f"{bare_home(home)}/{task}:{version}"
    key = read_private_key(place.keys / RELEASE_KEY, place.release_password())
    own = [recipient_of(identity) for identity in read_identities(place.keys / EVALUATOR_KEY)] if not grant_to else []
    root = read_root(place.keys / ROOT_SECRET)
    identity, _ = task_identity(root, SUITE, task)
    grant = make_grant(identity, [*grant_to, *own], comment=f"image: {record.manifest.digest}", root=root)
    with store.lease():
        signed = sign_image(record.manifest, reference, key, store).added_to(record)
        added = put_grant(store, record.manifest, grant)
        kept = tuple(known for known in signed.grants if known.digest != added.digest)
        store.set_name("images", task, format_record(replace(signed, grants=(*kept, added))))
    return Shipped(task, reference, record.manifest.digest)


def bare_home(text: str) -> str:
    """Return REGISTRY/NAMESPACE; an URL is refused with the rule that says when http is spoken."""
    scheme, mark, rest = text.partition("://")
    if mark:
        hint = f"{rest.rstrip('/')}: https is spoken, and plain http only with localhost or a loopback address"
        raise UsageError(f"expected REGISTRY/NAMESPACE without {scheme}://, found {text[:200]!r}", hint=hint)
    return text.rstrip("/")


@full_disk_trouble("push")
def push(place: Place, task: str, *, namespace: str, version: str = VERSION, progress: Progress = silent) -> Shipped:
    """Push a task's image with signatures and grants; its tag appears when all else is there."""
    from packager.oci.reference import parse_reference
    from packager.registry.push import push_image

    reference = parse_reference(f"{bare_home(namespace)}/{task}:{version}")
    store = place.store()
    with store.lease():
        digest = push_image(store, place.record(task), reference, progress=progress)
    return Shipped(task, str(reference), digest)


@full_disk_trouble("pull")
def pull(place: Place, reference: str, *, progress: Progress = silent) -> Shipped:
    """Pull an image with signatures and grants; the image's label, not its repository, says which task it is."""
    from packager.oci.record import format_record
    from packager.oci.reference import parse_reference
    from packager.registry.pull import pull_image

    parsed = parse_reference(bare_home(reference))
    store = place.store()
    store.sweep()
    with store.lease():
        record = pull_image(parsed, store, progress=progress)
        task = _labelled_task(store, record, where=reference)
        store.set_name("images", task, format_record(record))
    return Shipped(task, reference, record.manifest.digest)


def _labelled_task(store: Store, record: ImageRecord, *, where: str) -> str:
    from packager.build.assemble import TASK_LABEL
    from packager.evaluate.judge import read_image
    from packager.seal.identities import parse_name

    label = read_image(store, record).config.labels.get(TASK_LABEL)
    if label is None:
        raise InputError(f"the image has no label {TASK_LABEL}: it is not the image of a task", where=where)
    return parse_name(label, where=f"{where}: label {TASK_LABEL}")


@full_disk_trouble("verify")
def verify(
    place: Place,
    task: str,
    *,
    public_keys: Sequence[str] = (),
    identity: str | None = None,
    progress: Progress = silent,
) -> tuple[Check, ...]:
    """Check a task's image and read every byte of it; the list ends in yes or at the first no."""
    from packager.trust.verify import verify_image

    keys = trusted_keys(place, public_keys)
    store = place.store()
    with store.lease():
        record = place.record(task)
        return tuple(verify_image(record, store, public_keys=keys, reference=identity, progress=progress))


def trusted_keys(place: Place, public_keys: Sequence[str]) -> list[PublicKey]:
    """Return the named public keys, or the release key in the keys folder; none at all is an InputError."""
    from packager.trust.keyfiles import read_public_key

    paths = [Path(path) for path in public_keys] or [place.keys / RELEASE_PUBLIC_KEY]
    missing = [path for path in paths if not is_there(path)]
    if missing:
        raise InputError("there is no public key to verify with", where=str(missing[0]), hint="--key FILE")
    return [read_public_key(path) for path in paths]
