"""The trust policy of a lab: which root speaks for which suite, how many must sign, and what an image must show.

```yaml
schema: wideswe-trust/1
suites:
  - name: wideswe
    root: "sha256:…"            # digest of the root document that everything starts from
    release: 1                  # different release keys that must have signed an image
    attest: 1                   # different attestation keys that must say that it was validated
    validated: true             # base fails, gold passes: said by the attestation keys of the suite
    reproduced: 0               # builders who must have rebuilt it …
    builders: [lab.pub]         # … and their keys, beside this file
```
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from packager.base.digests import Digest, parse_digest
from packager.base.errors import InputError
from packager.base.files import read_file
from packager.base.problems import Problem, refuse
from packager.recipe.nodes import Document, read_document
from packager.seal.identities import parse_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

SCHEMA = "wideswe-trust/1"
LIMIT_BYTES = 1 << 20

_MOST = 64
_NEEDED = ("name", "root")
_NUMBERS = {"release": (1, 1), "attest": (1, 1), "reproduced": (0, 0)}
"""By key: the value without one, and the least that makes sense."""
_KEYS = {*_NEEDED, *_NUMBERS, "validated", "builders"}


@dataclass(frozen=True)
class SuitePolicy:
    """What is asked of one suite's images."""

    name: str
    root: Digest
    release: int = 1
    attest: int = 1
    validated: bool = True
    reproduced: int = 0
    builders: tuple[Path, ...] = ()


@dataclass(frozen=True)
class TrustPolicy:
    """Whom a lab believes, by suite."""

    suites: Mapping[str, SuitePolicy]

    def of(self, name: str | None, *, where: str) -> SuitePolicy:
        """Return the policy of a suite; without a name the only one there is."""
        if name is None and len(self.suites) == 1:
            return next(iter(self.suites.values()))
        known = ", ".join(sorted(self.suites))
        if name is None:
            raise InputError(f"it speaks of several suites: {known}", where=where, hint="name one with --suite")
        if name not in self.suites:
            raise InputError(f"it does not speak of the suite {name}", where=where, hint=f"suites in it: {known}")
        return self.suites[name]


def read_policy(path: Path) -> TrustPolicy:
    """Read a trust policy; every fault in it is in the one InputError."""
    document = read_document(read_file(path, limit=LIMIT_BYTES))
    problems = [
        Problem(str(path), line, ".".join(map(str, fault.key)), fault.message, fault.hint)
        for line, fault in document.faults
    ]
    refuse([*problems, *(() if problems else _problems(document, str(path)))])
    rows = [_parse(row, path) for row in document.value["suites"]]
    return TrustPolicy({row.name: row for row in rows})


def format_policy(policy: SuitePolicy) -> str:
    """Return a trust policy for one suite as people write it."""
    lines = [
        f"schema: {SCHEMA}",
        "suites:",
        f"  - name: {policy.name}",
        f'    root: "{policy.root}"',
        f"    release: {policy.release}",
        f"    attest: {policy.attest}",
        f"    validated: {str(policy.validated).lower()}",
        f"    reproduced: {policy.reproduced}",
    ]
    return "\n".join([*lines, ""])


def _problems(document: Document, file: str) -> Iterator[Problem]:
    value = document.value
    if not isinstance(value, dict) or value.get("schema") != SCHEMA or set(value) != {"schema", "suites"}:
        yield Problem(file, 0, "", f"expected the keys schema ({SCHEMA}) and suites, and no other")
        return
    rows = value["suites"]
    if not isinstance(rows, list) or not 1 <= len(rows) <= _MOST:
        yield Problem(file, document.line_of(("suites",)), "suites", f"expected a list of 1 to {_MOST} suites")
        return
    names: set[str] = set()
    for number, row in enumerate(rows):
        line = document.line_of(("suites", number))
        if not isinstance(row, dict):
            yield Problem(file, line, f"suites.{number}", "expected a mapping")
            continue
        for key, message in _row_faults(row):
            place = document.line_of(("suites", number, key))
            yield Problem(file, place, f"suites.{number}.{key}", message)
        if str(row.get("name")) in names:
            yield Problem(file, line, f"suites.{number}.name", "the suite is named twice")
        names.add(str(row.get("name")))


def _row_faults(row: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield from ((key, "unknown key") for key in sorted(row.keys() - _KEYS))
    yield from ((key, "is missing") for key in _NEEDED if key not in row)
    for key, parse in (("name", parse_name), ("root", parse_digest)):
        try:
            parse(str(row.get(key, "x" if key == "name" else "sha256:" + "0" * 64)), where=key)
        except InputError as error:
            yield key, error.reason
    for key, (default, least) in _NUMBERS.items():
        found = row.get(key, default)
        if not isinstance(found, int) or isinstance(found, bool) or not least <= found <= _MOST:
            yield key, f"expected a number from {least} to {_MOST}, found {str(found)[:40]}"
    if not isinstance(row.get("validated", True), bool):
        yield "validated", "expected true or false"
    builders = row.get("builders", [])
    if not isinstance(builders, list) or not all(isinstance(name, str) and name for name in builders):
        yield "builders", "expected a list of public key files"
    elif isinstance(row.get("reproduced"), int) and row["reproduced"] > len(builders):
        yield "reproduced", f"expected at most {len(builders)}, the number of builders"


def _parse(row: dict[str, Any], path: Path) -> SuitePolicy:
    return SuitePolicy(
        name=row["name"],
        root=parse_digest(row["root"]),
        release=row.get("release", 1),
        attest=row.get("attest", 1),
        validated=row.get("validated", True),
        reproduced=row.get("reproduced", 0),
        builders=tuple(path.parent / name for name in row.get("builders", [])),
    )
