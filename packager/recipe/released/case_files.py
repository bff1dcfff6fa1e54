"""Reads the files of a released case: never outside the checkout, bounded, and lenient only where YAML would guess."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import yaml

from packager.base.canonical import parse_json
from packager.base.errors import InputError
from packager.base.files import read_file
from packager.base.paths import parse_relative

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_LIMIT_BYTES = 64 << 20
_YAML_LIMIT_BYTES = 4 << 20
_MAX_NODES = 100_000
_MAX_DEPTH = 40
_MAX_FOLDERS = 200_000
_SKIPPED = frozenset({".git", "node_modules", "repos", "gold", "hidden", "environment", "oracles"})
MARK = "task.yaml"
_MARKS = (MARK, "repos.yaml", "harness.yaml", "oracles/scoring_manifest.json")


class CaseFiles:
    """The folder of one case; what leads out of the checkout is refused."""

    def __init__(self, checkout: Path, folder: Path) -> None:
        self._checkout = checkout.resolve()
        self.folder = folder
        self.name = folder.name

    @property
    def place(self) -> str:
        """Where the case lies in the checkout."""
        return self.folder.resolve().relative_to(self._checkout).as_posix()

    def read(self, relative: str) -> bytes | None:
        """Return the bytes of a file, None if nothing is there; a link out of the checkout is an InputError."""
        path = self.folder / parse_relative(relative, where=self.name)
        try:
            real = path.resolve(strict=True)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, RuntimeError) as error:
            raise InputError("cannot be followed", where=f"{self.name}/{relative}") from error
        if not real.is_relative_to(self._checkout):
            raise InputError("leads out of the checkout", where=f"{self.name}/{relative}")
        return read_file(real, limit=_LIMIT_BYTES)

    def read_text(self, relative: str) -> str | None:
        """Return a file as text; bytes that are no UTF-8 are replaced, as commands never need them."""
        data = self.read(relative)
        return None if data is None else data.decode(errors="replace")

    def read_yaml(self, relative: str) -> dict[str, Any] | None:
        """Return a mapping whose leaves are all text, so that no commit is a number and no version a fraction."""
        data = self.read(relative)
        return None if data is None else parse_yaml(data, where=f"{self.name}/{relative}")

    def read_json(self, relative: str) -> dict[str, Any] | None:
        """Return a JSON object."""
        data = self.read(relative)
        if data is None:
            return None
        where = f"{self.name}/{relative}"
        value = parse_json(data, where=where, limit=_LIMIT_BYTES)
        if not isinstance(value, dict):
            raise InputError("expected an object", where=where)
        return value


def find_cases(checkout: Path) -> list[CaseFiles]:
    """Return all case folders of a checkout, sorted by path; links to folders are not followed."""
    return [CaseFiles(checkout, folder) for folder in sorted(_case_folders(checkout))]


def _case_folders(checkout: Path) -> Iterator[Path]:
    waiting, seen = [checkout], 0
    while waiting:
        place = waiting.pop()
        seen += 1
        if seen > _MAX_FOLDERS:
            raise InputError(f"more than {_MAX_FOLDERS} folders", where=str(checkout))
        if sum((place / mark).is_file() for mark in _MARKS) > 1 or (place / MARK).is_file():
            yield place
            continue
        with os.scandir(place) as entries:
            waiting.extend(
                place / one.name for one in entries if one.is_dir(follow_symlinks=False) and one.name not in _SKIPPED
            )


def parse_yaml(data: bytes, *, where: str) -> dict[str, Any]:
    """Return a YAML mapping with anchors and merges followed, every leaf as the text that is written there."""
    if len(data) > _YAML_LIMIT_BYTES:
        raise InputError(f"expected at most {_YAML_LIMIT_BYTES} bytes of YAML, found {len(data)}", where=where)
    try:
        value = yaml.load(data, Loader=yaml.BaseLoader)  # noqa: S506 - makes text, lists and mappings only
        plain = _Plain().value(value, _MAX_DEPTH)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        said = getattr(error, "problem", None) or str(error).partition("\n")[0]
        mark = getattr(error, "problem_mark", None)
        place = where if mark is None else f"{where}:{mark.line + 1}"
        raise InputError(f"not YAML: {said}", where=place) from error
    if not isinstance(plain, dict):
        raise InputError("expected keys and values", where=where)
    return plain


class _Plain:
    """Copies what a loader made, so that aliases are values; the whole stays bounded."""

    def __init__(self) -> None:
        self._left = _MAX_NODES

    def value(self, found: object, depth: int) -> Any:  # noqa: ANN401 - YAML has no narrower type
        self._left -= 1
        if self._left < 0:
            raise ValueError(f"more than {_MAX_NODES} values")
        if depth == 0:
            raise ValueError(f"nested deeper than {_MAX_DEPTH}, or an alias that contains itself")
        if isinstance(found, list):
            return [self.value(one, depth - 1) for one in found]
        return self._mapping(found, depth) if isinstance(found, dict) else found

    def _mapping(self, found: dict[Any, Any], depth: int) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        given = found.get("<<", [])
        for one in given if isinstance(given, list) else [given]:
            if isinstance(one, dict):
                merged |= self._mapping(one, depth - 1) if depth > 1 else {}
        own = {str(key): self.value(one, depth - 1) for key, one in found.items() if key != "<<"}
        return merged | own
