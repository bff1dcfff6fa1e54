"""The verbs that carry images between registries and stores: push, pull, mirror."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.api.place import VERSION
from packager.api.ship import Shipped, bare_home
from packager.api.trusted import Trust
from packager.base.canonical import LIMIT_BYTES
from packager.base.errors import InputError, TrustError, UsageError, WorldError
from packager.base.files import full_disk_trouble
from packager.base.progress import Overall, Progress, silent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.api.place import Place
    from packager.base.digests import Digest
    from packager.oci.record import ImageRecord
    from packager.oci.reference import Reference
    from packager.registry.mirror import Mirror
    from packager.store.store import Store


@dataclass(frozen=True)
class Copied:
    """An image that was mirrored: where it is now, and how many of its blobs, and bytes of them, had to move."""

    source: str
    reference: str
    manifest: str
    blobs: int
    moved: int
    moved_bytes: int


@full_disk_trouble("push")
def push(
    place: Place,
    task: str,
    *,
    namespace: str,
    version: str | None = VERSION,
    progress: Progress = silent,
) -> Shipped:
    """Push a task's image with signatures and grants; its tag appears when all else is there (None: no tag)."""
    from packager.oci.reference import parse_reference
    from packager.registry.push import Manner, push_image

    reference = parse_reference(f"{bare_home(namespace)}/{task}" + (f":{version}" if version else ""))
    store = place.store()
    with store.lease():
        record, mounts = place.record(task), _neighbours(place, task, reference)
        _refuse_unsigned(record, store, task)
        manner = Manner(insecure=place.plain(reference.registry), mounts=mounts)
        digest = push_image(store, record, reference, progress=progress, manner=manner)
    return Shipped(task, str(reference), digest)


def _refuse_unsigned(record: ImageRecord, store: Store, task: str) -> None:
    """Refuse to publish an image that lacks a signature in either form: some stock tool could not judge it."""
    from packager.trust.attestations import is_signed

    if is_signed(record, store):
        return
    hint = f"wideswe-pack sign --task {task} --home REGISTRY/NAMESPACE"
    raise TrustError("the image is not signed in both of cosign's forms", where=task, hint=hint)


def _neighbours(place: Place, task: str, reference: Reference) -> dict[Digest, str]:
    """Return from which repository of the same namespace each layer may be mounted: those of the store's other tasks.

    It is a guess that costs nothing: a registry that does not have the layer there takes it as usual.
    """
    from packager.oci.manifest import parse_manifest

    store = place.store()
    found: dict[Digest, str] = {}
    for other in store.names("images"):
        digest = place.record(other).manifest.digest
        if other != task and store.has(digest):
            repository = f"{reference.repository.rpartition('/')[0]}/{other}".lstrip("/")
            layers = parse_manifest(store.read(digest, LIMIT_BYTES), where=digest).layers
            found = dict.fromkeys((layer.digest for layer in layers), repository) | found
    return found


@full_disk_trouble("pull")
def pull(
    place: Place,
    reference: str,
    *,
    offline: bool = False,
    platform: str | None = None,
    progress: Progress = silent,
) -> Shipped:
    """Pull an image with signatures and grants; the image's label, not its repository, says which task it is.

    Of an index the image for `platform` is taken (default: this machine's).
    `offline` asks no registry: what was pulled under this reference before is made the task's image again.
    """
    from packager.oci.record import format_record
    from packager.oci.reference import parse_reference
    from packager.registry.pull import pull_image

    parsed = parse_reference(bare_home(reference))
    store = place.store()
    store.sweep()
    with store.lease():
        if offline:
            record = _pulled_before(store, parsed)
        else:
            insecure = place.plain(parsed.registry)
            record = pull_image(parsed, store, progress=progress, insecure=insecure, platform=platform)
        task = labelled_task(store, record, where=reference)
        store.set_name("images", task, format_record(record))
        store.set_name("pulled", str(parsed), format_record(record))
    return Shipped(task, reference, record.manifest.digest)


def _pulled_before(store: Store, reference: Reference) -> ImageRecord:
    """Return what a pull left under exactly this reference; WorldError if a blob of it is not there any more."""
    from packager.oci.record import parse_record
    from packager.registry.attached import read_attached

    data = store.name("pulled", str(reference))
    if data is None:
        hint = "pull it once without --offline, or import a bundle"
        raise WorldError("was not pulled into this store before", where=str(reference), hint=hint)
    record = parse_record(data, where=str(reference))
    for blob in read_attached(store, record).blobs(where=str(reference)):
        if not store.has(blob.digest, blob.size):
            hint = "pull it again without --offline"
            raise WorldError(f"the store lacks {blob.digest} ({blob.size} bytes)", where=str(reference), hint=hint)
    return record


def labelled_task(store: Store, record: ImageRecord, *, where: str) -> str:
    """Return the task that an image in the store says it is; it is a name, and no path."""
    from packager.evaluate.judge import read_image
    from packager.oci.places import TASK_LABEL
    from packager.seal.identities import parse_name

    label = read_image(store, record).config.labels.get(TASK_LABEL)
    if label is None:
        raise InputError(f"the image has no label {TASK_LABEL}: it is not the image of a task", where=where)
    return parse_name(label, where=f"{where}: label {TASK_LABEL}")


@full_disk_trouble("mirror")
def mirror(
    place: Place,
    pairs: Sequence[tuple[str, str]],
    *,
    progress: Progress = silent,
) -> tuple[Copied, ...]:
    """Copy images, each from one reference to another, with their signatures, attestations and grants.

    All sources are in one registry, and all destinations are; what is there already does not move.
    """
    from packager.oci.reference import parse_reference
    from packager.registry.client import RegistryClient
    from packager.registry.mirror import Mirror

    parsed = [(parse_reference(bare_home(source)), parse_reference(bare_home(target))) for source, target in pairs]
    hosts = {(source.registry, target.registry) for source, target in parsed}
    if len(hosts) != 1:
        raise UsageError("expected images of one registry, and one registry to copy them to")
    ((source_host, target_host),) = hosts
    store = place.store()
    store.sweep()
    clients = [RegistryClient(host, insecure=place.plain(host)) for host in (source_host, target_host)]
    copy = Mirror(clients[0], clients[1], store, Overall.over(progress, "mirror", len(parsed)))
    try:
        with store.lease():
            return tuple(_copied(copy, source, target) for source, target in parsed)
    finally:
        for client in clients:
            client.close()


def _copied(copy: Mirror, source: Reference, target: Reference) -> Copied:
    done = copy.run(source, target)
    return Copied(str(source), str(target), done.manifest, done.blobs, done.moved, done.moved_bytes)


def mirror_suite(
    place: Place, namespaces: tuple[str, str], name: str, *, trust: Trust | None = None, progress: Progress = silent
) -> tuple[Copied, ...]:
    """Copy a suite from one namespace to another: the images that its current version lists, then the suite itself.

    The suite is pulled into the store first, by the trust policy; images are copied by the digests that it names.
    """
    from packager.api.suite_state import current_suite, pull_suite
    from packager.api.trusted import suite_record
    from packager.oci.reference import parse_reference

    source, target = (bare_home(namespace) for namespace in namespaces)
    pull_suite(place, f"{source}/{name}-suite:latest", trust or Trust(), progress=progress)
    _, index = current_suite(place, name, careful=False)
    listed: dict[str, set[Digest]] = {}
    for image in index.contents.images:
        listed.setdefault(f"{image.task}:{parse_reference(image.reference).tag}", set()).add(image.manifest)
    digest = suite_record(place.store(), name).manifest.digest
    listed |= {f"{name}-suite:{tag}": {digest} for tag in (f"v{index.contents.version}", "latest")}
    pairs = [
        (f"{source}/{what}@{_one_or_index(place, f'{source}/{what}', digests)}", f"{target}/{what}")
        for what, digests in listed.items()
    ]
    return mirror(place, pairs, progress=progress)


def _one_or_index(place: Place, reference: str, listed: set[Digest]) -> Digest:
    """Return the digest of the one image listed under a name, or that of the index which has exactly those listed."""
    from packager.oci.reference import parse_reference
    from packager.registry.client import RegistryClient

    if len(listed) == 1:
        return next(iter(listed))
    parsed = parse_reference(reference)
    client = RegistryClient(parsed.registry, insecure=place.plain(parsed.registry))
    try:
        document = client.get_manifest(parsed.repository, str(parsed.tag))
        children = document.index(where=reference).manifests if document.is_index else ()
    finally:
        client.close()
    if {child.digest for child in children} == listed:
        return document.descriptor.digest
    hint = f"wideswe-pack index {reference} {' '.join(sorted(listed))}"
    raise WorldError("expected an index of exactly the images that the suite lists", where=reference, hint=hint)


def mirror_pairs(source: str, target: str, tasks: Sequence[str], *, version: str = VERSION) -> list[tuple[str, str]]:
    """Return what to copy: one image by reference, or tasks of one namespace to another under the same names."""
    if not tasks:
        return [(source, target)]
    return [(f"{bare_home(source)}/{task}:{version}", f"{bare_home(target)}/{task}:{version}") for task in tasks]
