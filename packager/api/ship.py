"""The verbs that make images trusted: keygen, sign, verify."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.api.place import (
    ATTEST_KEY,
    ATTEST_PUBLIC_KEY,
    EVALUATOR_KEY,
    RELEASE_KEY,
    RELEASE_PUBLIC_KEY,
    ROOT_SECRET,
    SUITE_ROOT_KEY,
    SUITE_ROOT_PUBLIC_KEY,
    VERSION,
    Place,
)
from packager.api.trusted import ImageQuestion, Trust
from packager.base.errors import UsageError
from packager.base.files import full_disk_trouble, write_atomic
from packager.base.progress import Progress, silent

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from packager.trust.checks import Check


KEY_PAIRS = (
    (RELEASE_KEY, RELEASE_PUBLIC_KEY),
    (ATTEST_KEY, ATTEST_PUBLIC_KEY),
    (SUITE_ROOT_KEY, SUITE_ROOT_PUBLIC_KEY),
)
"""Private and public file of each role: what signs images, what attests, and what says who may do either."""


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
    root, evaluator = place.keys / ROOT_SECRET, place.keys / EVALUATOR_KEY
    pairs = [] if evaluator_only else [(place.keys / private, place.keys / public) for private, public in KEY_PAIRS]
    for private, public in pairs:
        if not (private.exists() and public.exists()):
            _make_signing_key(place, private, public)
    if not evaluator_only and not root.exists():
        write_root(root, create_root())
    if not evaluator.exists():
        write_identity(evaluator, create_evaluator_key()[0])
    files = (evaluator,) if evaluator_only else (*(path for pair in pairs for path in pair), root, evaluator)
    return Keys(files, tuple(recipient_of(identity) for identity in read_identities(evaluator)))


def import_key(place: Place, source: Path, role: str) -> Keys:
    """Keep a PKCS #8 key from elsewhere as the encrypted key of a role: `release`, `attest` or `suite-root`."""
    from packager.seal.keyfiles import read_secret_file
    from packager.trust.keyfiles import import_private_key, write_key_pair

    pair = next(((private, public) for private, public in KEY_PAIRS if public == f"{role}.pub"), None)
    if pair is None:
        roles = ", ".join(public.removesuffix(".pub") for _, public in KEY_PAIRS)
        raise UsageError(f"expected one of {roles}, found {role[:40]!r}")
    key = import_private_key(read_secret_file(source), where=str(source))
    files = place.keys / pair[0], place.keys / pair[1]
    write_key_pair(*files, key, place.release_password())
    return Keys(files, ())


def _make_signing_key(place: Place, private: Path, public: Path) -> None:
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
    from packager.api.grants import with_grants
    from packager.oci.record import format_record
    from packager.seal.identities import read_identities
    from packager.seal.keys import recipient_of
    from packager.trust.signatures import sign_image

    store, record = place.store(), place.record(task)
    reference = f"{bare_home(home)}/{task}:{version}"
    key = place.private_key(RELEASE_KEY)
    own = [recipient_of(identity) for identity in read_identities(place.keys / EVALUATOR_KEY)] if not grant_to else []
    with store.lease():
        signed = sign_image(record.manifest, reference, key, store).added_to(record)
        store.set_name("images", task, format_record(with_grants(place, task, signed, [*grant_to, *own])))
    return Shipped(task, reference, record.manifest.digest)


def bare_home(text: str) -> str:
    """Return REGISTRY/NAMESPACE; an URL is refused with the rule that says when http is spoken."""
    scheme, mark, rest = text.partition("://")
    if mark:
        hint = f"{rest.rstrip('/')}: https is spoken, and plain http only with localhost or a loopback address"
        raise UsageError(f"expected REGISTRY/NAMESPACE without {scheme}://, found {text[:200]!r}", hint=hint)
    return text.rstrip("/")


@full_disk_trouble("verify")
def verify(  # noqa: PLR0913 - what is asked, and by whose word
    place: Place,
    task: str,
    *,
    public_keys: Sequence[str] = (),
    identity: str | None = None,
    trust: Trust | None = None,
    progress: Progress = silent,
) -> tuple[Check, ...]:
    """Check a task's image and read every byte of it; the list ends in yes or at the first no."""
    chosen = trust or Trust(tuple(public_keys), identity=identity)
    with place.store().lease():
        return ImageQuestion(place, place.record(task), task, chosen).ask(progress=progress).checks
