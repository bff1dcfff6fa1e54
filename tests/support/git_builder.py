"""Builds git repositories object by object, without git: the same content always has the same ids."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from packager.lock.git_objects import ObjectId

if TYPE_CHECKING:
    from pathlib import Path

TIME = 1_600_000_000

Files = Mapping[str, "bytes | str | tuple[str, bytes] | tuple[str, str]"]
"""Path → content; a pair gives the octal mode first (`("120000", b"target")`, `("160000", commit id)`)."""


class GitBuilder:
    """A bare repository of loose objects."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "objects").mkdir(parents=True)
        (path / "refs" / "heads").mkdir(parents=True)
        (path / "HEAD").write_text("ref: refs/heads/main\n")

    def add(self, kind: str, data: bytes) -> ObjectId:
        framed = b"%s %d\0" % (kind.encode(), len(data)) + data
        name = hashlib.sha1(framed, usedforsecurity=False).hexdigest()
        path = self.object_path(name)
        path.parent.mkdir(exist_ok=True)
        if not path.exists():
            path.write_bytes(zlib.compress(framed))
        return ObjectId(name)

    def object_path(self, name: str) -> Path:
        return self.path / "objects" / name[:2] / name[2:]

    def blob(self, data: bytes) -> ObjectId:
        return self.add("blob", data)

    def raw_tree(self, items: list[tuple[str, bytes, str]]) -> ObjectId:
        return self.add(
            "tree", b"".join(b"%s %s\0" % (mode.encode(), name) + bytes.fromhex(id_) for mode, name, id_ in items)
        )

    def tree(self, files: Files) -> ObjectId:
        rows: dict[bytes, tuple[str, str]] = {}
        folders: dict[str, dict[str, bytes | str | tuple[str, bytes] | tuple[str, str]]] = {}
        for path, content in files.items():
            head, slash, rest = path.partition("/")
            if slash:
                folders.setdefault(head, {})[rest] = content
                continue
            mode, data = content if isinstance(content, tuple) else ("100644", content)
            raw = data.encode() if isinstance(data, str) else data
            rows[name_bytes(path)] = (mode, data if mode == "160000" and isinstance(data, str) else self.blob(raw))
        for name, inner in folders.items():
            rows[name_bytes(name)] = ("40000", self.tree(inner))
        order = sorted(rows, key=lambda name: name + b"/" if rows[name][0] == "40000" else name)
        return self.raw_tree([(rows[name][0], name, rows[name][1]) for name in order])

    def commit(self, files: Files | ObjectId, *parents: str, message: str = "change", time: int = TIME) -> ObjectId:
        tree = files if isinstance(files, str) else self.tree(files)
        person = f"A U Thor <author@example.invalid> {time} +0000"
        lines = [f"tree {tree}", *(f"parent {parent}" for parent in parents), f"author {person}", f"committer {person}"]
        return self.add("commit", ("\n".join(lines) + f"\n\n{message}\n").encode())

    def ref(self, name: str, value: str) -> None:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{value}\n")


class PlainPlace:
    """The part of a store that git sources need, without locks."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @contextmanager
    def lock(self, _name: str, /) -> Iterator[None]:
        yield


def name_bytes(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")
