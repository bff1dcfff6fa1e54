"""One dependency step taken by a real client of this machine: recorded twice, then proved without its registry."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from packager.build.dockerfile import parse_dockerfile
from packager.build.execute import Builder, Input
from packager.build.record import Recording, record_fetches, replay_fetches, vouch
from packager.lock.clients import Clients
from packager.lock.git import GitSources
from packager.lock.recorder import Recorder
from packager.oci.layer import open_layer
from packager.oci.tar_reader import read_tar
from packager.oci.tree import scan_tree
from packager.store.store import Store
from tests.support.host_engine import HostEngine
from tests.support.host_tree import make_host_layer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from packager.lock.model import LockedFetch

STEP = "made/dependencies"
_SETTINGS = ("alternatives", "gradle", "java-17-openjdk", "maven", "mono", "php", "ruby", "ssl")


def needs(*programs: str) -> None:
    """Skip where a program of the machine's /usr is missing; others are not seen in the sandbox."""
    for program in programs:
        if not Path("/usr/bin", program).exists():
            pytest.skip(f"/usr/bin/{program} is not installed")


@dataclass(frozen=True)
class Walked:
    """What a step recorded, and the bytes of every file that it left, by path."""

    recording: Recording
    files: Mapping[str, bytes]
    store: Store

    @property
    def keys(self) -> list[str]:
        """The keys of what was fetched, with their aliases."""
        return [f"{row.blob.alias} {row.blob.key}" for row in self.recording.fetches]

    @property
    def purls(self) -> list[str]:
        """The package URLs, each once."""
        return sorted({row.purl for row in self.recording.fetches})

    def checked(self, files: Mapping[str, str]) -> Sequence[LockedFetch]:
        """Return what was fetched once lock files have been asked to vouch."""
        texts = {name: text.encode() for name, text in files.items()}
        return vouch(self.recording, {STEP: texts}, self.store).fetches

    def origins(self, files: Mapping[str, str]) -> dict[str, str]:
        """Return origin by key, likewise."""
        return {row.blob.key: row.origin for row in self.checked(files)}

    def never(self, text: str) -> bool:
        """Say whether neither the lock's rows nor any file has a text (where the registry really is)."""
        rows = repr((self.recording.fetches, self.recording.absent))
        return text not in rows and not [name for name, data in self.files.items() if text.encode() in data]


@dataclass(frozen=True)
class Project:
    """What a step starts from (files below /work) and what it runs; `variables` say where registries are, `mirrors` where repositories.

    `after` runs on top of what the step left, without any proxy: as tests run in an image.
    """

    command: str
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    mirrors: Mapping[str, str] = field(default_factory=dict)
    after: str = ""


def walk(folder: Path, project: Project) -> Walked:
    """Record a step twice and replay it, each time from nothing; then once more in a builder that has replay alone."""
    store = Store(folder / "store")
    builder = Builder(store, HostEngine(), {"inputs/base.tar": _base(folder / "base", project)})
    text = "FROM scratch\nADD inputs/base.tar /\nENV PATH=/usr/bin:/bin HOME=/root LC_ALL=C.UTF-8\nWORKDIR /work\n"
    instructions = parse_dockerfile(f"{text}# step: {STEP}\nRUN {project.command}\n")
    clients = Clients({"HOME": str(folder), **project.variables}, root=folder)
    clients.git = GitSources(store, project.mirrors, folder)
    recording = record_fetches(builder, instructions, lambda: Recorder(store, clients))
    fetches = replay_fetches(store, [STEP], recording.fetches, recording.absent)
    stage = replace(builder, fetches=fetches, fresh=frozenset({STEP})).build(instructions)
    assert [found.refused() for found in fetches.values()] == [()]
    if project.after:
        replace(builder, fetches=fetches).build(
            parse_dockerfile(f"{text}# step: {STEP}\nRUN {project.command}\nRUN {project.after}\n")
        )
    files: dict[str, bytes] = {}
    for layer in stage.layers[1:]:
        with open_layer(store, layer) as stream:
            files |= {entry.path.decode(): reader.read() for entry, reader in read_tar(stream)}
    return Walked(recording, files, store)


def _base(folder: Path, project: Project) -> Input:
    make_host_layer(folder)
    for name in _SETTINGS:
        if Path("/etc", name).is_dir():
            shutil.copytree(Path("/etc", name), folder / "etc" / name, symlinks=True)
    for name, content in project.files.items():
        path = folder / "work" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return Input({"kind": "made", "folder": str(folder)}, lambda _: scan_tree(folder))
