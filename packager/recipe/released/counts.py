"""The frozen lists of a released case: from its scoring manifest alone; what other files count is only compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from packager.base.digests import digest_of
from packager.base.errors import InputError
from packager.recipe.released.access import mapping, mappings, text

if TYPE_CHECKING:
    from packager.recipe.released.case_files import CaseFiles
    from packager.recipe.released.values import Counts, Findings

_MANIFEST = "oracles/scoring_manifest.json"
_LISTS = ("native_fail_to_pass", "missing_to_pass", "fail_to_pass", "pass_to_pass")
_PROFILE = "profile::"


@dataclass(frozen=True)
class FrozenTarget:
    """The ids of one target as the release spells them."""

    native_fail_to_pass: tuple[str, ...]
    missing_to_pass: tuple[str, ...]
    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]

    @property
    def counts(self) -> Counts:
        """How many ids each list has."""
        return (
            len(self.native_fail_to_pass),
            len(self.missing_to_pass),
            len(self.fail_to_pass),
            len(self.pass_to_pass),
        )

    def plain(self) -> dict[str, list[str]]:
        """Return the lists as JSON values."""
        return {
            "FAIL_TO_PASS": list(self.fail_to_pass),
            "MISSING_TO_PASS": list(self.missing_to_pass),
            "PASS_TO_PASS": list(self.pass_to_pass),
        }


def read_frozen(files: CaseFiles, targets: list[str], found: Findings) -> dict[str, FrozenTarget]:
    """Return the frozen lists by target; a manifest that does not hold together is said, one that is absent too."""
    manifest = files.read_json(_MANIFEST)
    if manifest is None:
        found.need(f"the frozen lists ({_MANIFEST} is missing from the case)")
        return {}
    if manifest.get("valid") is not True or manifest.get("errors"):
        found.need(f"{_MANIFEST} calls itself not valid")
    _compare_oracle(files, manifest, found)
    frozen: dict[str, FrozenTarget] = {}
    for row in mappings(manifest, "repos"):
        name = text(row, "repo")
        if name not in targets:
            found.need(f"{_MANIFEST} judges {name!r}, which is no target")
            continue
        frozen[name] = _target(name, row, found)
    for name in targets:
        if name not in frozen:
            found.need(f"{name}: its frozen lists ({_MANIFEST} has none)")
    _compare_totals(manifest, frozen, found)
    return frozen


def _target(name: str, row: dict[str, Any], found: Findings) -> FrozenTarget:
    ids = {key: _ids(mapping(row, "test_ids"), key) for key in _LISTS}
    one = FrozenTarget(*(ids[key] for key in _LISTS))
    for key in _LISTS:
        stated = row.get(key)
        if isinstance(stated, int) and stated != len(ids[key]):
            found.need(f"{name}: {_MANIFEST} states {stated} {key}, its list has {len(ids[key])}")
    if set(one.fail_to_pass) != {*one.native_fail_to_pass, *one.missing_to_pass}:
        found.need(f"{name}: fail_to_pass is not native_fail_to_pass and missing_to_pass together")
    if not one.fail_to_pass:
        found.need(f"{name}: FAIL_TO_PASS is empty, so its tests cannot judge")
    if not one.pass_to_pass:
        found.note(f"{name}: PASS_TO_PASS is empty and would pass vacuously")
    if any(_PROFILE in test for test in (*one.fail_to_pass, *one.pass_to_pass)):
        found.note(f"{name}: judged by exit status alone (profile-level oracle)")
    if one.missing_to_pass:
        found.note(f"{name}: {len(one.missing_to_pass)} of FAIL_TO_PASS do not exist at base")
    return one


def _ids(lists: dict[str, Any], key: str) -> tuple[str, ...]:
    rows = lists.get(key)
    if not isinstance(rows, list):
        raise InputError(f"expected a list of ids as {key}")
    ids = [row if isinstance(row, str) else text(row, "id") if isinstance(row, dict) else None for row in rows]
    return tuple(one for one in ids if one is not None)


def _compare_oracle(files: CaseFiles, manifest: dict[str, Any], found: Findings) -> None:
    oracle = mapping(manifest, "oracle")
    path, stated = text(oracle, "path"), text(oracle, "sha256")
    if path is None or stated is None:
        return
    try:
        data = files.read(path)
    except InputError as error:
        found.need(f"the oracle {path} {error.reason}")
        return
    if data is None:
        found.note(f"the oracle {path} is missing from the case")
    elif digest_of(data) != f"sha256:{stated}":
        found.need(f"the oracle {path} is not the one that {_MANIFEST} was made of")


def _compare_totals(manifest: dict[str, Any], frozen: dict[str, FrozenTarget], found: Findings) -> None:
    totals = mapping(manifest, "totals")
    for number, key in enumerate(_LISTS):
        stated, listed = totals.get(key), sum(one.counts[number] for one in frozen.values())
        if isinstance(stated, int) and stated != listed:
            found.need(f"{_MANIFEST} states {stated} {key} in all, its lists have {listed}")


def note_stale_counts(files: CaseFiles, frozen: dict[str, FrozenTarget], found: Findings) -> None:
    """Say where validation.yaml counts otherwise; it is never taken for the truth."""
    try:
        matrix = mapping(files.read_yaml("validation.yaml") or {}, "matrix")
    except InputError:
        found.note("validation.yaml cannot be read; it is not needed")
        return
    totals = mapping(matrix, "oracle_totals")
    both = [totals.get(key) for key in ("fail_to_pass", "pass_to_pass")]
    ours = [str(sum(one.counts[number] for one in frozen.values())) for number in (2, 3)]
    if frozen and None not in both and both != ours:
        found.note(f"validation.yaml is stale: {both[0]}/{both[1]} there, {ours[0]}/{ours[1]} in {_MANIFEST}")
