"""The verb of labs: evaluate."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packager.api.sealed import open_sealed
from packager.api.trusted import ImageQuestion, Trust, refuse_unverified
from packager.base.errors import UsageError
from packager.base.files import full_disk_trouble, write_atomic
from packager.base.progress import Progress, silent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packager.api.place import Place
    from packager.evaluate.predictions import Patch, Prediction, Predictions
    from packager.evaluate.run_record import RunRecord
    from packager.evaluate.trajectory import Trajectory
    from packager.evaluate.verdict import Verdict
    from packager.seal.bundle import SealContents

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
