"""The verbs of statements and of other tools' trust: attest, trust export."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from packager.api.place import ATTEST_KEY, LOCK_LIMIT_BYTES, ROOT_SECRET, SUITE, Place
from packager.api.trusted import Trust, check_suite, trusted_keys
from packager.base.canonical import format_canonical, parse_json
from packager.base.digests import digest_of
from packager.base.errors import InputError, TrustError, UsageError
from packager.base.files import full_disk_trouble, is_there, read_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from packager.base.digests import Digest
    from packager.evaluate.judge import StoredImage
    from packager.lock.model import Lock
    from packager.oci.record import ImageRecord
    from packager.recipe.model import Recipe
    from packager.seal.bundle import SealContents
    from packager.store.store import Store
    from packager.trust.keys import PublicKey

FORMATS = ("policy.json", "cosign.pub", "registries.d", "trust.yaml")
_SHORTEST_NAME = 6
"""Shorter test ids occur in any text by chance."""


@dataclass(frozen=True)
class Attested:
    """What is now said about an image, by predicate type."""

    task: str
    manifest: str
    predicates: tuple[str, ...]


@dataclass(frozen=True)
class ExportRequest:
    """What stock tools are to believe: images of a home, also where they are mirrored."""

    form: str
    home: str | None = None
    mirrors: tuple[str, ...] = ()
    fingerprint: str | None = None


@full_disk_trouble("attest")
def attest(place: Place, task: str, *, signing_key: Path | None = None) -> Attested:
    """Say where an image comes from, what is in it, and that it was validated: signed by the attestation key."""
    from packager.evaluate.judge import read_image
    from packager.trust.attestations import attach_statement, format_statement

    store, record = place.store(), place.record(task)
    image = read_image(store, record)
    lock = place.lock(task, f"{image.config.os}/{image.config.architecture}")
    key = place.private_key(signing_key or ATTEST_KEY)
    with store.lease():
        for predicate_type, predicate in _predicates(place, lock, image, store):
            statement = format_statement(task, record.manifest.digest, predicate_type, predicate)
            record = attach_statement(record, statement, key, store)
        _keep(store, task, record)
    return _attested(task, record, store)


@full_disk_trouble("attest")
def attest_file(
    place: Place, task: str, path: Path, *, predicate_type: str | None = None, signing_key: Path | None = None
) -> Attested:
    """Sign and attach a statement from a file, as it is; or a predicate alone, which becomes a statement."""
    from packager.trust.attestations import attach_statement, format_statement
    from packager.trust.dsse import LIMIT_BYTES, parse_statement

    store, record = place.store(), place.record(task)
    data = read_file(path, limit=LIMIT_BYTES)
    value = parse_json(data, where=str(path), limit=LIMIT_BYTES)
    if not isinstance(value, dict):
        raise InputError("expected a statement or a predicate, a JSON object", where=str(path))
    if "_type" not in value:
        if predicate_type is None:
            raise UsageError("a predicate without its type", hint="--predicate-type URI")
        data = format_statement(task, record.manifest.digest, predicate_type, value)
    said = parse_statement(data, where=str(path))
    if predicate_type not in (None, said.predicate_type):
        raise InputError(f"expected the predicate type {predicate_type}, found {said.predicate_type}", where=str(path))
    _refuse_hidden_names(place, task, data, where=str(path))
    key = place.private_key(signing_key or ATTEST_KEY)
    with store.lease():
        record = attach_statement(record, data, key, store)
        _keep(store, task, record)
    return _attested(task, record, store)


def export_trust(place: Place, request: ExportRequest, trust: Trust) -> str:
    """Return what skopeo, podman, CRI-O, cosign or another lab need to judge the images of a home."""
    from packager.trust import export

    if request.form == "trust.yaml":
        return _export_policy(place, trust)
    keys = _release_keys(place, trust)
    if request.form == "cosign.pub":
        return _one_key(keys, request.fingerprint)
    home = request.home
    if home is None:
        raise UsageError("which images?", hint="--home REGISTRY/NAMESPACE, the home that signatures name")
    if request.form == "policy.json":
        return export.format_engine_policy(home, request.mirrors, keys)
    if request.form == "registries.d":
        return export.format_registries(home, request.mirrors)
    raise UsageError(f"expected one of {', '.join(FORMATS)}, found {request.form[:40]!r}")


def _predicates(place: Place, lock: Lock, image: StoredImage, store: Store) -> Iterator[tuple[str, dict[str, Any]]]:
    from packager.oci.config import content_id
    from packager.trust.attestations import PROVENANCE_PREDICATE, RESULT_PREDICATE, SBOM_PREDICATE
    from packager.trust.provenance import make_provenance
    from packager.trust.sbom import make_sbom
    from packager.trust.validation import make_result

    recipe = place.recipe(lock.task)
    urls = {repo.name: repo.repo or "" for repos in (recipe.targets, recipe.contexts) for repo in repos}
    sealed = image.sealed(store)
    byproducts: dict[str, Digest] = {
        "content id": content_id(image.config.diff_ids, image.config_bytes),
        "environment id": _environment_id(image),
        "sealed file": digest_of(sealed),
    }
    yield PROVENANCE_PREDICATE, make_provenance(lock, repositories=urls, byproducts=byproducts)
    bill = make_sbom(lock, image.record.manifest.digest, repositories=urls, licences=_licences(lock, store))
    yield SBOM_PREDICATE, bill
    validated = _validated(place, recipe, lock, sealed)
    if validated is not None:
        yield RESULT_PREDICATE, make_result(validated, sealed=digest_of(sealed))


def _licences(lock: Lock, store: Store) -> dict[Digest, str]:
    """Return what the locked artifacts that are at hand declare; each is read once, its digest remembers the rest."""
    from packager.lock.licences import ALIASES, MOST_BYTES, READER_ID, licence_of

    found: dict[Digest, str] = {}
    for blob in lock.blobs():
        if blob.alias not in ALIASES or blob.size > MOST_BYTES or not store.has(blob.digest, blob.size):
            continue
        key = digest_of(
            format_canonical({"kind": READER_ID, "digest": blob.digest, "alias": blob.alias, "key": blob.key})
        )
        said = store.result(key)
        if said is None:
            said = (licence_of(store.checked_path(blob.digest), blob.alias, blob.key) or "").encode()
            store.put_result(key, said)
        if said:
            found[blob.digest] = said.decode()
    return found


def _environment_id(image: StoredImage) -> Digest:
    """Return the content id of the image without its last layer, the seal: what anybody can rebuild."""
    from packager.oci.config import content_id

    config = parse_json(image.config_bytes, where="config")
    for rows in (config["rootfs"]["diff_ids"], config.get("history") or [None]):
        rows.pop()
    return content_id(config["rootfs"]["diff_ids"], format_canonical(config))


def _validated(place: Place, recipe: Recipe, lock: Lock, sealed: bytes) -> Any:  # noqa: ANN401 - imported lazily
    """Return what was validated, counted in the seal itself; None if the image was never validated."""
    from packager.trust.validation import TargetCounts, Validated

    contents = _own_seal(place, recipe.id, sealed)
    if contents is None or contents.expected is None:
        return None
    path = place.file(recipe.id, lock.platform, "expected")
    file = parse_json(read_file(path, limit=LOCK_LIMIT_BYTES), where=str(path), limit=LOCK_LIMIT_BYTES)
    found = file["targets"]
    rows = {name: {kind: sorted(found[name][kind]) for kind in lists} for name, lists in contents.expected.items()}
    if rows != {name: dict(lists) for name, lists in contents.expected.items()}:
        hint = f"wideswe-pack build --task {recipe.id}, then sign and attest again"
        raise InputError("these are not the expected tests that the image's seal holds", where=str(path), hint=hint)
    counts = {
        name: TargetCounts(len(lists["FAIL_TO_PASS"]), len(lists["PASS_TO_PASS"]))
        for name, lists in contents.expected.items()
    }
    return Validated(int(file["runs"]), counts)


def _own_seal(place: Place, task: str, sealed: bytes) -> SealContents | None:
    """Return what is sealed, for those who hold the root secret."""
    from packager.seal.bundle import open_seal
    from packager.seal.identities import read_root, task_identity

    path = place.keys / ROOT_SECRET
    if not is_there(path):
        return None
    identity, _ = task_identity(read_root(path), SUITE, task)
    return open_seal(sealed, identity)


def _refuse_hidden_names(place: Place, task: str, data: bytes, *, where: str) -> None:
    """Refuse a statement that names a test which must turn from failing to passing; only authors can look."""
    from packager.evaluate.judge import read_image

    if not is_there(place.keys / ROOT_SECRET):
        return
    store = place.store()
    try:
        contents = _own_seal(place, task, read_image(store, place.record(task)).sealed(store))
    except TrustError:  # another suite's image: nothing of ours is in it
        return
    text = data.decode("utf-8", "replace")
    names = [name for lists in ((contents and contents.expected) or {}).values() for name in lists["FAIL_TO_PASS"]]
    found = next((name for name in names if len(name) >= _SHORTEST_NAME and name in text), None)
    if found is not None:
        hint = "say how many tests, not which: statements are public"
        raise InputError("it names a hidden test", where=where, hint=hint)


def _keep(store: Store, task: str, record: ImageRecord) -> None:
    from packager.oci.record import format_record

    store.set_name("images", task, format_record(record))


def _attested(task: str, record: ImageRecord, store: Store) -> Attested:
    from packager.trust.attestations import attached

    kinds = tuple(sorted(said.predicate_type for _, _, said in attached(record, store)))
    return Attested(task, record.manifest.digest, kinds)


def _release_keys(place: Place, trust: Trust) -> list[PublicKey]:
    from packager.trust.policy import read_policy

    path = trust.policy_path(place)
    if path is None:
        return trusted_keys(place, trust.public_keys)
    policy = read_policy(path).of(trust.suite, where=str(path))
    checks, suite = check_suite(place, policy, allow_expired=trust.allow_expired)
    if suite is None:
        last = checks[-1]
        raise TrustError(f"check {last.number}, {last.name}: {last.reason}", where=f"suite {policy.name}")
    return list(suite.release_keys)


def _one_key(keys: list[PublicKey], fingerprint: str | None) -> str:
    found = [key for key in keys if key.fingerprint.startswith(fingerprint or "")]
    if len(found) == 1:
        return found[0].pem.decode()
    known = ", ".join(key.fingerprint[:16] for key in keys)
    raise UsageError(f"cosign takes one key, found {len(found)}", hint=f"--fingerprint, one of {known}")


def _export_policy(place: Place, trust: Trust) -> str:
    from packager.api.suite_state import show_suite
    from packager.base.digests import parse_digest
    from packager.trust.policy import SuitePolicy, format_policy

    name = trust.suite or SUITE
    return format_policy(SuitePolicy(name, parse_digest(show_suite(place, name).root)))
