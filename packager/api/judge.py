"""The verbs of labs and auditors: evaluate, inspect, audit, demo."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from packager.api.grants import open_sealed
from packager.api.place import PLATFORM, Place
from packager.api.ship import keygen, sign, verify
from packager.api.trusted import ImageQuestion, Trust, refuse_unverified
from packager.base.errors import UsageError
from packager.base.files import full_disk_trouble, write_atomic
from packager.base.progress import Event, Progress, silent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from packager.build.audit import Finding
    from packager.build.foreign import Recognised
    from packager.evaluate.judge import StoredImage
    from packager.evaluate.predictions import Patch, Prediction, Predictions
    from packager.evaluate.run_record import RunRecord
    from packager.evaluate.trajectory import Trajectory
    from packager.evaluate.verdict import Verdict
    from packager.seal.bundle import SealContents
    from packager.store.store import Store

_EXIT_UNRESOLVED = 1
_EXIT_INFRA = 6


@dataclass(frozen=True)
class EvaluationRequest:
    """What to evaluate: a folder or file of patches, patches of single targets, or the sealed gold; whom to trust.

    With `only`, that target alone is judged, the others at gold. `run` and `trajectory` (a file) say how the patch came
    about; what judging itself knows of that, such as which targets are changed, is put in its place.
    """

    patches: Path | None = None
    target_patches: Mapping[str, Path] = field(default_factory=dict)
    gold: bool = False
    public_keys: tuple[str, ...] = ()
    output: Path | None = None
    trust: Trust | None = None
    evaluator: Path | None = None
    only: str | None = None
    run: RunRecord | None = None
    trajectory: Path | None = None

    @classmethod
    def from_command_line(cls, given: Mapping[str, Any]) -> EvaluationRequest:
        """Return the request that the options of `evaluate` describe."""
        pairs = [word.partition("=") for word in given["target_patches"]]
        if any(not equals for _, equals, _ in pairs):
            raise UsageError("--target-patch takes TARGET=FILE")
        named = {name: Path(path) for name, _, path in pairs}
        ways = [bool(given["patches"]), bool(named), bool(given["gold"])]
        if sum(ways) != 1:
            raise UsageError("give the patches in one way", hint="--patch PATH, --target-patch TARGET=FILE, or --gold")
        keys = tuple(given["public_keys"])
        trust = Trust(keys, given["policy"], given["suite"], bool(given["allow_expired"]))
        return cls(
            given["patches"],
            named,
            bool(given["gold"]),
            keys,
            given["output"],
            trust,
            given["evaluator"],
            given["only"],
            trajectory=given["trajectory"],
        )

    def handed_in(self, place: Place, task: str) -> Predictions:
        """Return what was handed in for a task, under its own name or one that its recipe calls an alias."""
        from packager.evaluate.predictions import Prediction, Predictions, read_patch, read_predictions

        if self.target_patches:
            patches = {name: read_patch(path) for name, path in self.target_patches.items()}
            return Predictions({task: Prediction(patches)})
        found = Predictions({}) if self.patches is None else read_predictions(self.patches)
        return found if found.find(task, only=self.only) else found.known_as(task, place.aliases_of(task))

    def read(self, task: str, contents: SealContents, handed_in: Predictions) -> dict[str, Patch | None]:
        """Return a patch for each target that is judged; None where nothing was handed in."""
        from packager.evaluate.predictions import Patch

        names = sorted(contents.gold)
        judged = names if self.only is None else [self.only]
        if self.gold:
            return {name: Patch(contents.gold[name]) for name in names if name in judged}
        found = handed_in.of(task, names, only=self.only)
        return dict.fromkeys(judged) if found is None else {**found}

    def read_trajectory(self, handed_in: Prediction | None) -> Trajectory | None:
        """Return what the agent did, as the request or else the prediction names a file of it; None: nobody knows."""
        path = self.trajectory or (None if handed_in is None else handed_in.trajectory)
        if path is None:
            return None
        from packager.evaluate.trajectory import read_trajectory

        return read_trajectory(path)


@dataclass(frozen=True)
class InspectedLayer:
    """One layer: the digests of its tar and its blob, and the blob's size in bytes."""

    diff_id: str
    digest: str
    size: int


@dataclass(frozen=True)
class Inspected:
    """What an image is made of."""

    task: str
    manifest: str
    content_id: str
    layers: tuple[InspectedLayer, ...]
    signatures: int
    grants: int


@dataclass(frozen=True)
class Demonstrated:
    """The whole walk of one task."""

    manifest: str
    content_id: str
    checks: int
    gold: Verdict
    empty: Verdict

    @property
    def as_expected(self) -> bool:
        """Whether gold is resolved and nothing is not."""
        return (self.gold.grade.outcome.value, self.empty.grade.outcome.value) == ("resolved", "unresolved")


@dataclass(frozen=True)
class Audited:
    """What an audit found in an image of so many layers; clean if it found nothing."""

    task: str
    manifest: str
    layers: int
    findings: tuple[Finding, ...]

    @property
    def clean(self) -> bool:
        """Whether nothing gives the answer away, as far as an audit can see."""
        return not self.findings


@full_disk_trouble("evaluate")
def evaluate(place: Place, task: str, request: EvaluationRequest, *, progress: Progress = silent) -> Verdict:
    """Verify a task's image, open its seal, apply the patches, run the hidden tests and return the verdict."""
    if request.run is not None and (request.run.mode == "independent") != (request.only is not None):
        raise UsageError(f"the run was {request.run.mode}", where=task, hint="only an independent run has `only`")
    store = place.store()
    with place.engine_early() as engine, store.lease():
        from packager.evaluate.judge import Judge, read_image

        record, trust = place.record(task), request.trust or Trust(request.public_keys)
        verified = ImageQuestion(place, record, task, trust).ask(recall=True, progress=progress)
        refuse_unverified(verified.checks, task)
        image = read_image(store, record)  # the record that was verified, whatever a pull makes of it meanwhile
        contents = open_sealed(place, store, image, task, evaluator=request.evaluator)
        handed_in = request.handed_in(place, task)
        patches = request.read(task, contents, handed_in)
        prediction = handed_in.find(task, only=request.only)
        trajectory = request.read_trajectory(prediction)
        verdict = Judge(engine, store, progress).judge(image, contents, patches, only=request.only)
    from packager.evaluate.telling import tell

    verdict = tell(verdict, prediction, said=request.run, trajectory=trajectory)
    lists = place.released_lists(task, f"{image.config.os}/{image.config.architecture}")
    verdict = replace(verdict, suite=verified.binding(), run=_with_lists(verdict, lists))
    if request.output is not None:
        from packager.evaluate.verdict import format_verdict

        write_atomic(request.output, format_verdict(verdict))
    return verdict


def _with_lists(verdict: Verdict, lists: Mapping[str, str]) -> RunRecord | None:
    """Return the record of a run that also says how far the lists that judged are those of a release."""
    if verdict.run is None:
        return None
    from packager.evaluate.telling import RELEASED_LISTS

    said = {f"{RELEASED_LISTS}{name}": text for name, text in lists.items() if name in verdict.patches}
    return replace(verdict.run, details={**verdict.run.details, **said})


def exit_code(verdict: Verdict) -> int:
    """Return 0 for resolved, 6 when the machine is to blame, else 1."""
    from packager.evaluate.grade import Outcome

    codes = {Outcome.RESOLVED: 0, Outcome.INFRA: _EXIT_INFRA}
    return codes.get(verdict.grade.outcome, _EXIT_UNRESOLVED)


def _image(place: Place, store: Store, task: str) -> StoredImage:
    from packager.evaluate.judge import read_image

    return read_image(store, place.record(task))


def inspect(place: Place, task: str) -> Inspected:
    """Return what a task's image is made of."""
    from packager.oci.config import content_id
    from packager.seal.grants import count_grants

    store = place.store()
    image = _image(place, store, task)
    layers = tuple(
        InspectedLayer(diff_id, layer.digest, layer.size)
        for layer, diff_id in zip(image.layers, image.config.diff_ids, strict=True)
    )
    return Inspected(
        task,
        image.record.manifest.digest,
        content_id(image.config.diff_ids, image.config_bytes),
        layers,
        len(image.record.signatures) + len(image.record.referrers),
        count_grants(store, image.record.grants),
    )


@full_disk_trouble("inspect")
def recognise(archive: Path, *, progress: Progress = silent) -> Recognised:
    """Return the task and content id of an image that another engine saved; every layer is rewritten by our rules."""
    from packager.build.foreign import recognise_archive

    return recognise_archive(
        archive, lambda number, total: progress(Event("inspect", number, total, "layers", "reading"))
    )


@full_disk_trouble("demo")
def demo(place: Place, task: str, *, progress: Progress = silent) -> Demonstrated:
    """Walk the whole way with fresh keys in a folder of their own; the store is the usual one, the image forgotten."""
    from packager.trust.keyfiles import Password

    store = place.store()
    import tempfile

    from packager.api.author import build

    with tempfile.TemporaryDirectory(prefix="wideswe-demo-") as folder:
        from secrets import token_hex

        own = replace(place, keys=Path(folder) / "keys", password=Password(token_hex()))
        keygen(own)
        before = store.name("images", task)
        try:
            built = build(own, task, platform=PLATFORM, progress=progress)
            sign(own, task, home="wideswe.invalid/demo")
            checks = verify(own, task, progress=progress)
            gold = evaluate(own, task, EvaluationRequest(gold=True), progress=progress)
            empty = Path(folder) / "empty.patch"
            empty.touch()
            nothing = EvaluationRequest(target_patches=dict.fromkeys(gold.grade.targets, empty))
            unsolved = evaluate(own, task, nothing, progress=progress)
        finally:
            _put_back(store, task, before)
    return Demonstrated(built.manifest, built.content_id, len(checks), gold, unsolved)


def _put_back(store: Store, task: str, record: bytes | None) -> None:
    if record is None:
        store.remove_name("images", task)
    else:
        store.set_name("images", task, record)


@full_disk_trouble("audit")
def audit(place: Place, task: str, *, progress: Progress = silent) -> Audited:
    """Look for anything in a task's image that gives the answer away; needs the recipe, its lock and the answer."""
    from packager.build.audit import audit_image
    from packager.build.audit_task import derive_task_secrets, trusted_layers

    store, recipe = place.store(), place.recipe(task)
    with store.lease():
        image = _image(place, store, task)
        lock = place.lock(task, f"{image.config.os}/{image.config.architecture}")
        progress(Event("audit", message="reading what is secret and what is public"))
        secrets = derive_task_secrets(recipe, lock, store=store, repositories=place.repositories(recipe))
        layers = _counted(image.tars(store), len(image.layers), progress)
        found = audit_image(
            layers, image.config_bytes, image.annotations, secrets, trusted_layers=trusted_layers(recipe)
        )
    return Audited(task, image.record.manifest.digest, len(image.layers), tuple(found))


def _counted(layers: Iterable[IO[bytes]], total: int, progress: Progress) -> Iterator[IO[bytes]]:
    for number, layer in enumerate(layers, 1):
        progress(Event("audit", number, total, "layers", "searching"))
        yield layer
    progress(Event("audit", total, total, "layers", finished=True))
