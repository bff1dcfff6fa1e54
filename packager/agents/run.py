"""Runs one agent in its view of a task: the image without the seal, no network but the gateway, and its patches after.

The view is a fresh file system over the image's layers (and, where some targets stand at gold, over a layer with their
gold patches). When the agent has ended, all of its processes have: what is captured does not change any more.
"""

from __future__ import annotations

import contextlib
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING

from packager.agents.adapter import STDOUT
from packager.agents.gateway import Gateway
from packager.base.digests import digest_of_file
from packager.base.errors import InputError, WorldError
from packager.base.files import free_bytes
from packager.base.log import Log
from packager.base.processes import find_program
from packager.base.progress import Event, Progress, silent
from packager.evaluate.capture import capture_target
from packager.evaluate.run import Both, Capped
from packager.evaluate.trees import DirectoryTree, Kind
from packager.evaluate.workspace import Workspace
from packager.sandbox.engine import Bind, Command, Streams
from packager.sandbox.fetches import Relay
from packager.sandbox.identity import PROXY_PORT, ROOM_IN_TREE
from packager.store.scratch import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from packager.agents.adapter import Adapter
    from packager.agents.credential import Credential
    from packager.agents.tally import Counts
    from packager.base.digests import Digest
    from packager.evaluate.predictions import Patch
    from packager.sandbox.engine import Ended, Engine, Tree

PROMPT = f"{ROOM_IN_TREE}/prompt.md"
TOOLS = f"{ROOM_IN_TREE}/tools"
_WORKSPACE = "workspace"
_SIGNALLED = 128
_ALONE = """\
# What is yours to change

Of the repositories below only `/workspace/{target}` is yours to change: the others have had their part of the change.

"""


@dataclass(frozen=True)
class View:
    """What an agent sees: the layers without the seal, and the image's variables."""

    engine: Engine
    layers: Sequence[Path]
    env: Mapping[str, str]
    store_root: Path
    progress: Progress = silent
    most_output_bytes: int = 256 << 20
    """Of each stream, and of a trajectory."""
    least_free_bytes: int = 16 << 20
    """With less on the disk of the store, it is full."""


@dataclass(frozen=True)
class Assignment:
    """What an agent is given: targets to change, what stands at gold, other repositories, and the prompt."""

    targets: tuple[str, ...]
    prompt: bytes
    at_gold: Mapping[str, Patch] = field(default_factory=dict)
    others: tuple[str, ...] = ()

    @property
    def told(self) -> bytes:
        """Return the prompt as the agent reads it."""
        return (_ALONE.format(target=self.targets[0]).encode() if self.at_gold else b"") + self.prompt


@dataclass(frozen=True)
class AgentRun:
    """What became of a run: how it ended in words, what was asked, the patches, and what could not be captured."""

    ended: str
    exit_code: int
    seconds: float
    counts: Counts | None
    patches: Mapping[str, bytes]
    uncaptured: Mapping[str, str] = field(default_factory=dict)
    """Targets whose patch is empty because what the agent left is no patch, and why."""
    strays: tuple[str, ...] = ()
    trouble: str = ""
    """Why nothing of this judges the agent: trouble of the machine or of the model endpoint; mostly nothing."""
    tools: Mapping[str, Digest] = field(default_factory=dict)
    """What the tools that are files were: programs of agents change from one day to the next."""


def run_agent(view: View, adapter: Adapter, given: Assignment, credential: Credential | None, into: Path) -> AgentRun:
    """Run an agent to its end and return what it made; `trajectory` and `stderr` are written into a folder."""
    with contextlib.ExitStack() as held:
        scratch = held.enter_context(scratch_folder(view.store_root))
        layers = _with_gold(view, given, scratch, held)
        tree = held.enter_context(view.engine.open_tree(layers, scratch=scratch))
        _check_workspace(tree, (*given.targets, *given.others))
        (scratch / "prompt.md").write_bytes(given.told)
        tools = {name: digest_of_file(path) for name, path in _tools(adapter).items() if path.is_file()}
        view.progress(Event("run", message=f"{adapter.name} begins"))
        ended, counts = _run(_Job(view, adapter, given, scratch), tree, credential, into)
        if free_bytes(scratch) < view.least_free_bytes:
            raise WorldError("the disk of the store is full", where=str(view.store_root))
        view.progress(Event("run", message="capturing"))
        if adapter.trajectory != STDOUT:
            _fetch_trajectory(tree, adapter.trajectory, into / "trajectory", most=view.most_output_bytes)
        patches, uncaptured = _capture(tree, given.targets, adapter.leave_out)
        strays = tuple(name for name in given.others if _is_changed(tree, name))
    return AgentRun(
        ended=_words(ended, adapter),
        exit_code=ended.exit_code,
        seconds=ended.seconds,
        counts=counts,
        patches=patches,
        uncaptured=uncaptured,
        strays=strays,
        trouble=_trouble(adapter, ended, counts),
        tools=tools,
    )


@dataclass(frozen=True)
class _Job:
    view: View
    adapter: Adapter
    given: Assignment
    scratch: Path

    def command(self) -> Command:
        """Return what is to run, with the prompt and the tools in reach."""
        tools = _tools(self.adapter)
        folders = [
            f"{TOOLS}/{name}{below}" for name, place in tools.items() if place.is_dir() for below in ("/bin", "")
        ]
        path = self.view.env.get("PATH", "/usr/local/bin:/usr/bin:/bin")
        env = {
            **self.view.env,
            "PATH": ":".join([*([TOOLS] if tools else []), *folders, path]),
            "WIDESWE_PROMPT": PROMPT,
            "WIDESWE_TARGETS": " ".join(self.given.targets),
            **self.adapter.env,
        }
        if self.adapter.model is not None:
            env["WIDESWE_MODEL_URL"] = f"http://127.0.0.1:{PROXY_PORT}{self.adapter.model.endpoint.base}"
        binds = [Bind(self.scratch / "prompt.md", PROMPT)]
        binds += [Bind(place, f"{TOOLS}/{name}") for name, place in tools.items()]
        return Command(
            ("/bin/sh", "-c", self.adapter.command),
            env=env,
            cwd=f"/{_WORKSPACE}",
            timeout_s=float(self.adapter.time_s),
            limits=self.adapter.limits,
            binds=tuple(binds),
        )


def _run(job: _Job, tree: Tree, credential: Credential | None, into: Path) -> tuple[Ended, Counts | None]:
    """Run the command with its output in files, and the gateway beside it if it has a model."""
    model = job.adapter.model
    log, most = Log(job.view.progress, job.adapter.name), job.view.most_output_bytes
    with (into / "trajectory").open("wb") as out, (into / "stderr").open("wb") as errors:
        stdout: IO[bytes] | _Nowhere = out if job.adapter.trajectory == STDOUT else _Nowhere()
        streams = Streams(
            Both(Capped(stdout.write, limit=most).write, log.write),
            Both(Capped(errors.write, limit=most).write, log.write),
        )
        if model is None:
            return tree.run(job.command(), streams), None
        path = job.scratch / "gateway"
        gateway = Gateway(model.endpoint, credential, job.adapter.caps)
        gateway.start(path)
        try:
            ended = tree.run(job.command(), streams, fetches=Relay(path))
        finally:
            counts = gateway.close()
        return ended, counts


class _Nowhere:
    """Takes output that nobody wants."""

    def write(self, block: bytes) -> int:
        """Forget a block."""
        return len(block)


def _with_gold(view: View, given: Assignment, scratch: Path, held: contextlib.ExitStack) -> list[Path]:
    """Return the layers of the view: the image's, and one with the gold of the targets that stand at it."""
    if not given.at_gold:
        return [*view.layers]
    below = held.enter_context(view.engine.open_tree(view.layers, scratch=scratch))
    for name, patch in given.at_gold.items():
        Workspace(below).apply(name, patch)
    return [*view.layers, below.upper]


def _check_workspace(tree: Tree, names: Sequence[str]) -> None:
    missing = [name for name in names if not (tree.lower / _WORKSPACE / name).is_dir()]
    if missing:
        raise InputError("the image has no checkout of this repository", where=f"/{_WORKSPACE}/{missing[0]}")


def _tools(adapter: Adapter) -> dict[str, Path]:
    return {name: _tool(place) for name, place in adapter.tools.items()}


def _tool(place: str) -> Path:
    """Return the file or folder of a tool; a name without a slash is looked for on this machine's PATH."""
    path = Path(place).expanduser()
    found = path if "/" in place else Path(find_program(place) or "")
    if not place or not found.is_absolute() or not found.exists():
        hint = "install it, or say in `tools` where it is"
        raise InputError("this tool of the agent is not on this machine", where=place, hint=hint)
    return found.resolve()


def _workspace_of(tree: Tree) -> Path | None:
    """Return the workspace in the agent's view; None if the agent made something else of it."""
    place = tree.root / _WORKSPACE
    return None if place.is_symlink() or not place.is_dir() else place


def _capture(tree: Tree, targets: Sequence[str], leave_out: tuple[str, ...]) -> tuple[dict[str, bytes], dict[str, str]]:
    """Return the patches, and why some are empty though something was changed."""
    patches: dict[str, bytes] = {}
    uncaptured: dict[str, str] = {}
    for name in targets:
        patches[name] = b""
        try:
            if _may_be_changed(tree, name):
                workspace = _workspace_of(tree) or tree.root / _WORKSPACE / "gone"
                patches[name] = capture_target(tree.lower / _WORKSPACE, workspace, name, leave_out=leave_out)
        except (InputError, WorldError) as error:
            uncaptured[name] = error.reason
    return patches, uncaptured


def _may_be_changed(tree: Tree, name: str) -> bool:
    """Say whether anything was written below a checkout, without reading it."""
    workspace = _workspace_of(tree)
    if workspace is None or workspace.joinpath(name).is_symlink() or not workspace.joinpath(name).is_dir():
        return True
    written = tree.upper / _WORKSPACE / name
    return written.exists() or written.is_symlink()


def _is_changed(tree: Tree, name: str) -> bool:
    if not _may_be_changed(tree, name):
        return False
    patches, uncaptured = _capture(tree, (name,), ())
    return bool(patches[name] or uncaptured)


def _fetch_trajectory(tree: Tree, place: str, into: Path, *, most: int) -> None:
    """Copy a file out of the view, as far as it is one; no link is followed."""
    with DirectoryTree(tree.root) as files, contextlib.suppress(InputError, WorldError):
        path = place.strip("/").encode()
        if files.look(path) in (Kind.FILE, Kind.PROGRAM):
            into.write_bytes(files.read(path)[:most])


def _words(ended: Ended, adapter: Adapter) -> str:
    if ended.timed_out:
        return f"not finished after {adapter.time_s} s"
    if ended.out_of_memory:
        return f"out of memory at {adapter.limits.memory_bytes} bytes"
    if ended.out_of_disk:
        return f"wrote more than {adapter.limits.disk_bytes} bytes"
    if ended.exit_code > _SIGNALLED:
        return f"killed by {_signal(ended.exit_code - _SIGNALLED)}"
    return "finished" if ended.exit_code == 0 else f"exit code {ended.exit_code}"


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _trouble(adapter: Adapter, ended: Ended, counts: Counts | None) -> str:
    """Return why a run says nothing about the agent: with a model that answered nothing there was no agent at work."""
    if counts is None or counts.answered:
        return ""
    if not counts.passed:
        why = f": {counts.refusals[0]}" if counts.refusals else ""
        return f"the agent asked its model nothing ({_words(ended, adapter)}){why}"
    said = ", ".join(f"{count} times {status or 'no answer'}" for status, count in counts.statuses.items())
    return f"the model endpoint answered no request: {said}"
