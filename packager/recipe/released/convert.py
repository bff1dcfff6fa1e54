"""Turns the files of one released case into a draft of a recipe, and says what it could not turn."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any

from packager.base.canonical import format_readable
from packager.base.digests import digest_of
from packager.base.errors import InputError
from packager.recipe.fields import NAME_PATTERN
from packager.recipe.released.access import mapping, mappings, text, texts
from packager.recipe.released.case_files import MARK
from packager.recipe.released.counts import FrozenTarget, note_stale_counts, read_frozen
from packager.recipe.released.targets import Parts, target_of
from packager.recipe.released.values import Draft, Findings, ImportedCase, ImportedTarget

if TYPE_CHECKING:
    from packager.recipe.released.case_files import CaseFiles

PROMPT = "prompt.md"
_MANIFEST = "oracles/scoring_manifest.json"
_MAX_ID = 80
_MAX_TARGETS = 3
_MAX_CONTEXTS = 20
_COMMIT = re.compile(r"[0-9a-f]{40}")
_ALIAS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/+-]{0,199}", re.ASCII)
_NAME = re.compile(NAME_PATTERN, re.ASCII)
_FIX = re.compile(r"\b(?:bug ?fix|fix(?:e[sd])?|bugs?)\b", re.IGNORECASE)
_INSTANT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:Z|[+-]\d\d:\d\d)")


def task_id(case: str) -> str:
    """Return the id of a task for the id of a case: lower-case words joined by hyphens, still unique when cut."""
    words = "-".join(re.findall(r"[a-z0-9]+", case.lower())) or "case"
    if len(words) <= _MAX_ID:
        return words
    tail = hashlib.sha256(case.encode()).hexdigest()[:8]
    return f"{words[: _MAX_ID - 9].rstrip('-')}-{tail}"


def convert_case(files: CaseFiles) -> Draft:
    """Return the draft of a recipe; what makes a case unreadable is an InputError."""
    found = Findings()
    task = files.read_yaml(MARK)
    if task is None:
        raise InputError("there is no task.yaml: no repository and no commit is known", where=files.name)
    return _Conversion(files, task, found).draft()


class _Conversion:
    """One case on its way to a recipe."""

    def __init__(self, files: CaseFiles, task: dict[str, Any], found: Findings) -> None:
        self._files = files
        self._task = task
        self._found = found
        self.case = files.name
        self.id = task_id(self.case)
        self._repos = self._optional("repos.yaml")
        self._harness = self._optional("harness.yaml")
        self._profiles = self._optional("environment/test_profiles.yaml")
        self._script = files.read_text("environment/run_profile.sh")
        self._kept: dict[str, bytes] = {}
        self._origin: dict[str, dict[str, Any]] = {}

    def _optional(self, relative: str) -> dict[str, Any]:
        try:
            found = self._files.read_yaml(relative)
        except InputError as error:
            self._found.need(f"{relative} cannot be read: {error.reason}")
            return {}
        if found is None:
            self._found.need(f"{relative} is missing from the case")
        return found or {}

    def draft(self) -> Draft:
        """Return everything that the case gives."""
        targets = self._targets()
        frozen = self._frozen([one["name"] for one in targets])
        contexts = self._contexts({one["name"] for one in targets})
        plain: dict[str, Any] = {
            "schema": "wideswe-recipe/1",
            "id": self.id,
            "aliases": self._aliases(),
            "kind": self._kind(),
            "relation": self._relation(targets),
            "ecosystem": re.sub(r"[^A-Za-z0-9._-]", "-", text(self._task, "ecosystem") or "unknown"),
            "prompt": f"{self.id}/{PROMPT}",
            "base": self._base(targets),
            "targets": [{key: one[key] for key in one if not key.startswith("_")} for one in targets],
            "contexts": contexts,
            "links": [link for one in targets for link in one["_links"]],
        }
        cutoff = text(mapping(self._repos, "workspace_policy"), "cutoff_time")
        if cutoff and _INSTANT.fullmatch(cutoff):
            plain["cutoff"] = cutoff.replace(" ", "T")
        if frozen:
            plain["frozen"] = f"{self.id}/frozen.json"
        self._keep(PROMPT, PROMPT, f"the prompt ({PROMPT} is missing from the case)")
        note_stale_counts(self._files, frozen, self._found)
        return Draft(
            {k: v for k, v in plain.items() if v not in ([], {})},
            self._kept,
            self._origin,
            self._report(targets, frozen, contexts),
        )

    def _report(
        self, targets: list[dict[str, Any]], frozen: dict[str, FrozenTarget], contexts: list[dict[str, Any]]
    ) -> ImportedCase:
        rows = []
        for one in targets:
            counts = frozen[one["name"]].counts if one["name"] in frozen else (0, 0, 0, 0)
            rows.append(ImportedTarget(one["name"], *counts, one.get("test", {}).get("run", "")))
        return ImportedCase(
            self.case,
            self.id,
            "incomplete",
            "",
            tuple(rows),
            len(contexts),
            tuple(self._aliases()),
            tuple(sorted(self._found.registries)),
            tuple(self._found.todo),
            tuple(self._found.notes),
        )

    def _aliases(self) -> list[str]:
        provenance = mapping(self._task, "source_provenance")
        merged = [
            one for key in ("merged_candidates", "merged_from", "candidate_ids") for one in texts(provenance, key)
        ]
        found = [self.case, text(self._task, "id") or "", text(self._harness, "task_id") or "", *merged]
        return sorted({one for one in found if one and one != self.id and _ALIAS.fullmatch(one)})

    def _kind(self) -> str:
        said = text(self._task, "task_type") or ""
        if re.search(r"bug|fix", said):
            return "bugfix"
        titles = [text(one, "title") or "" for one in mappings(self._task, "source_prs")]
        if titles and all(_FIX.search(title) for title in titles):
            self._found.note("kind bugfix, as all titles of its pull requests say fix")
            return "bugfix"
        if "feature" not in said:
            self._found.note("kind feature, as nothing says bug fix")
        return "feature"

    def _targets(self) -> list[dict[str, Any]]:
        rows = mappings(self._task, "repositories")
        named: dict[str, dict[str, Any]] = {}
        for row in rows:
            name = text(row, "name")
            if name is None or _NAME.fullmatch(name) is None or name.endswith(".git"):
                raise InputError(f"no name of a repository: {name!r}", where=f"{self._files.name}/{MARK}")
            if name in named:
                self._found.need(f"two rows for the repository {name} in {MARK}")
            named.setdefault(name, row)
        if not 1 <= len(named) <= _MAX_TARGETS:
            raise InputError(f"expected 1 to {_MAX_TARGETS} repositories, found {len(named)}", where=self._files.name)
        places = {self._place(name, row): f"/workspace/{name}" for name, row in named.items()}
        parts = Parts(self._files, self._found, self._harness, self._profiles, self._script, places)
        return [self._target(name, row, parts) for name, row in named.items()]

    def _place(self, name: str, row: dict[str, Any]) -> str:
        known = mapping(mapping(self._repos, "repos"), name)
        return (text(row, "path") or text(known, "local_path") or f"repos/{name}").strip("/")

    def _target(self, name: str, row: dict[str, Any], parts: Parts) -> dict[str, Any]:
        base, gold = self._commit(name, row, "base_commit"), text(row, "gold_commit")
        if gold is not None and gold == text(row, "merge_commit"):
            self._found.note(f"{name}: the gold commit is the merge commit; gold is taken from its patch")
        target: dict[str, Any] = {"name": name, "repo": self._address(name, row), "commit": base}
        patch = text(row, "gold_patch") or f"gold/patches/{name}.patch"
        kept = self._keep(patch, f"gold/{name}.patch", f"{name}: the gold patch ({patch} is missing from the case)")
        target["gold"] = {"patch": f"{self.id}/gold/{name}.patch"} if kept else {}
        hidden = parts.hidden_patch(name)
        wanted = f"{name}: the hidden tests ({hidden} is missing from the case)"
        kept = self._keep(hidden, f"hidden/{name}.patch", wanted)
        target["hidden"] = {"patch": f"{self.id}/hidden/{name}.patch"} if kept else {}
        return {
            key: one
            for key, one in (target | target_of(name, self._place(name, row), parts)).items()
            if one or key[0] == "_"
        }

    def _commit(self, name: str, row: dict[str, Any], key: str) -> str:
        known = mapping(mapping(self._repos, "repos"), name)
        commit = (text(row, key) or text(known, key) or "").lower()
        other = text(known, key)
        if other and commit and other.lower() != commit:
            self._found.need(
                f"{name}: {MARK} and repos.yaml name different base commits, {commit[:12]} and {other[:12]}"
            )
        if _COMMIT.fullmatch(commit) is None:
            raise InputError(
                f"expected a commit of 40 digits as {key} of {name}, found {commit!r}", where=self._files.name
            )
        return commit

    def _address(self, name: str, row: dict[str, Any]) -> str:
        url = text(mapping(mapping(self._repos, "repos"), name), "url") or text(row, "url") or ""
        if not url:
            url = next((address for one in mappings(self._task, "source_prs") if (address := _of_pull(one, name))), "")
        if not url:
            self._found.need(f"{name}: the address of its repository")
        return url.removesuffix("/")

    def _contexts(self, targets: set[str]) -> list[dict[str, Any]]:
        found = []
        for name, row in mapping(self._repos, "repos").items():
            if name in targets or not isinstance(row, dict):
                continue
            commit = (text(row, "snapshot_commit") or text(row, "base_commit") or "").lower()
            url = text(row, "url") or ""
            if _COMMIT.fullmatch(commit) and url:
                found.append({"name": name, "repo": url, "commit": commit, "history": "none"})
            else:
                self._found.need(f"context {name}: its {'commit' if url else 'address'}")
        if len(found) > _MAX_CONTEXTS:
            self._found.need(f"{len(found)} contexts, of which a recipe takes {_MAX_CONTEXTS}")
        return found

    def _relation(self, targets: list[dict[str, Any]]) -> str:
        said = text(self._task, "task_type") or ""
        if any(one["_links"] for one in targets):
            return "producer-consumer"
        if "consumer" in said and len(targets) > 1:
            self._found.need("how the consumer is tested against the producer's checkout (links, with a check)")
        return "parallel"

    def _base(self, targets: list[dict[str, Any]]) -> dict[str, Any]:
        packages = sorted({"ca-certificates", "git", *(package for one in targets for package in one["_packages"])})
        return {"debian": "bookworm", "packages": packages}

    def _frozen(self, names: list[str]) -> dict[str, FrozenTarget]:
        try:
            frozen = read_frozen(self._files, names, self._found)
        except InputError as error:
            self._found.need(f"{_MANIFEST} cannot be read: {error.reason}")
            return {}
        if frozen:
            lists = {name: one.plain() for name, one in frozen.items()}
            self._kept["frozen.json"] = format_readable(lists)
            self._remember("frozen.json", _MANIFEST, self._files.read(_MANIFEST) or b"")
        return frozen

    def _keep(self, source: str, name: str, missing: str) -> bool:
        try:
            data = self._files.read(source)
        except InputError as error:
            self._found.need(f"{source} {error.reason}")
            return False
        if not data:
            self._found.need(missing if data is None else f"{source} is empty")
            return False
        self._kept[name] = data
        self._remember(name, source, data)
        return True

    def _remember(self, name: str, source: str, data: bytes) -> None:
        place = f"{self._files.place}/{source}"
        self._origin[name] = {"path": place, "digest": digest_of(data), "size": len(data)}


def _of_pull(row: dict[str, Any], name: str) -> str:
    found = re.match(r"(https://[^/]+/[^/]+/([^/]+))/pull/", text(row, "url") or "")
    return found[1] if found and found[2].lower() == name.lower() else ""
