"""What exports tell of a verified image: its task file and prompt, its variables, and how long tests may take."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from packager.base.canonical import parse_json
from packager.base.errors import InputError, IntegrityError
from packager.evaluate.run import PREPARE_FACTOR, PREPARE_TIMEOUT_S
from packager.oci.places import PROMPT_PATH, TASK_PATH, TASK_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packager.evaluate.profile import Profile
    from packager.evaluate.trees import Tree

_LIMIT_BYTES = 1 << 20
_DEFAULT_S = 3600


@dataclass(frozen=True)
class ExportedTarget:
    """A target and its base commit."""

    name: str
    commit: str


@dataclass(frozen=True)
class ExportedTask:
    """A task as its image tells it; `image` names the image by digest, `env` is what its containers start with."""

    task: str
    image: str
    platform: str
    prompt: str
    kind: str
    relation: str
    targets: tuple[ExportedTarget, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    profile: Profile | None = None

    @property
    def timeout_s(self) -> int:
        """How long preparing and testing all targets may take; an hour per target where nobody opened the seal."""
        if self.profile is None:
            return _DEFAULT_S * len(self.targets)
        prepared = [
            min(PREPARE_TIMEOUT_S, PREPARE_FACTOR * one.timeout_s) for one in self.profile.targets if one.prepare
        ]
        return int(sum(prepared) + sum(one.timeout_s for one in self.profile.targets)) + 60


def read_view(files: Tree, task: str, *, image: str, env: Mapping[str, str], profile: Profile | None) -> ExportedTask:
    """Return what the files of an image say of its task."""
    where = f"/{TASK_PATH.decode()}"
    try:
        plain = parse_json(files.read(TASK_PATH), where=where, limit=_LIMIT_BYTES)
        if (plain["schema"], plain["task"]) != (TASK_SCHEMA, task):
            raise IntegrityError(f"expected the task file of {task}, found another", where=where)
        targets = tuple(ExportedTarget(str(one["name"]), str(one["commit"])) for one in plain["targets"])
        found = ExportedTask(
            task=task,
            image=image,
            platform=str(plain["platform"]),
            prompt=files.read(PROMPT_PATH).decode(),
            kind=str(plain["kind"]),
            relation=str(plain["relation"]),
            targets=targets,
            env=env,
            profile=profile,
        )
    except (KeyError, TypeError) as error:
        raise IntegrityError(f"not a task file: {error!r}", where=where) from error
    except UnicodeDecodeError as error:
        raise InputError("expected a prompt in UTF-8", where=f"/{PROMPT_PATH.decode()}") from error
    if not targets:
        raise IntegrityError("it names no target", where=where)
    return found


COLLECTED = "workspace.tar"


def collect_command(targets: tuple[ExportedTarget, ...], into: str) -> str:
    """Return what packs the checkouts as an agent left them into one tar: files and links, nothing of `.git`."""
    names = " ".join(f"./{one.name}" for one in targets)
    listed = f"find {names} -name .git -prune -o \\( -type f -o -type l \\) -print0"
    packed = f"tar --null --no-recursion --hard-dereference --owner=0 --group=0 -T - -cf {into}"
    return f"mkdir -p {into.rpartition('/')[0]} && cd /workspace && {listed} | {packed}"
