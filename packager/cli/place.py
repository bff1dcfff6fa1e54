"""Where things are on this machine: what the global options and the settings file say."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from packager.base.canonical import LIMIT_BYTES
from packager.base.errors import InputError, UsageError
from packager.base.files import is_there, read_text_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from packager.api import Place

_PACKAGE_ROOT = Path(__file__).resolve().parents[2]


def _xdg(name: str, default: str) -> Path:
    return Path(os.environ.get(name) or Path("~").expanduser() / default) / "wideswe-pack"


@dataclass(frozen=True)
class Options:
    """The global options, with defaults filled in."""

    root: Path
    store: Path
    keys: Path
    config: Path
    inputs: tuple[Path, ...]
    engine: str
    as_json: bool
    quiet: bool
    password_file: Path | None = None

    @classmethod
    def from_command_line(cls, given: Mapping[str, Any]) -> Options:
        """Return the options that click parsed."""
        here = Path.cwd()
        root = given["root"] or (here if (here / "recipes").is_dir() else _PACKAGE_ROOT)
        home = _xdg("XDG_CONFIG_HOME", ".config")
        return cls(
            root=root.absolute(),
            store=(given["store"] or _xdg("XDG_DATA_HOME", ".local/share")).absolute(),
            keys=(given["keys"] or home / "keys").absolute(),
            config=(given["config"] or home / "config.yaml").absolute(),
            inputs=tuple(path.absolute() for path in given["inputs"]),
            engine=given["engine"],
            as_json=given["as_json"],
            quiet=given["quiet"],
            password_file=given["password_file"] and given["password_file"].absolute(),
        )

    def place(self, plain_http: tuple[str, ...] = ()) -> Place:
        """Return the place that the Python API works in; `plain_http` names registries to speak plain http to."""
        from packager.api import Place

        return Place(
            root=self.root,
            store_root=self.store,
            keys=self.keys,
            inputs=self.inputs,
            engine=self.engine,
            mirrors=Mirrors(self.config),
            plain_http=plain_http,
            password_file=self.password_file,
        )


class Mirrors(Mapping[str, str]):
    """The mirrors of a settings file, which is read when one is asked for: most verbs never do, and YAML is slow."""

    def __init__(self, config: Path) -> None:
        self._config = config

    def __getitem__(self, pattern: str) -> str:
        return self._read[pattern]

    def __iter__(self) -> Iterator[str]:
        return iter(self._read)

    def __len__(self) -> int:
        return len(self._read)

    @cached_property
    def _read(self) -> dict[str, str]:
        if not is_there(self._config):
            return {}
        import yaml

        text = read_text_file(self._config, limit=LIMIT_BYTES)
        try:
            value = yaml.safe_load(text) or {}
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            raise InputError(f"not YAML: {error}", where=str(self._config)) from error
        mirrors = value.get("mirrors", {}) if isinstance(value, dict) else None
        if not isinstance(mirrors, dict):
            hint = "mirrors: {pattern of a URL: where it is instead}"
            raise InputError("expected a mapping with the key `mirrors`", where=str(self._config), hint=hint)
        return {str(pattern): str(place) for pattern, place in mirrors.items()}


def chosen_tasks(options: Options, tasks: tuple[str, ...], *, every: bool) -> tuple[str, ...]:
    """Return the tasks named by --task or --all, or raise UsageError."""
    known = sorted(path.stem for path in (options.root / "recipes").glob("*.yaml"))
    if every and tasks:
        raise UsageError("--task and --all exclude each other")
    if every:
        return tuple(known)
    if not tasks:
        raise UsageError("no task named", hint="--task ID (repeats) or --all")
    unknown = [task for task in tasks if task not in known]
    if unknown:
        hint = f"recipes here: {', '.join(known) or 'none'}"
        raise UsageError(f"no recipe for {', '.join(unknown)} in {options.root / 'recipes'}", hint=hint)
    return tasks


def task_options(command: Callable[..., object]) -> Callable[..., object]:
    """Add --task and --all to a command."""
    every = click.option("--all", "every", is_flag=True, help="Every recipe of the suite.")
    one = click.option("--task", "tasks", multiple=True, metavar="ID", help="The task; repeats.")
    return one(every(command))


def stored_tasks(known: Sequence[str], tasks: tuple[str, ...], *, every: bool) -> tuple[str, ...]:
    """Return the tasks named by --task, or with --all those whose images the store has; or raise UsageError."""
    if every and tasks:
        raise UsageError("--task and --all exclude each other")
    if not every and not tasks:
        raise UsageError("no task named", hint="--task ID (repeats) or --all")
    if every and not known:
        raise UsageError("there is no image in the store", hint="wideswe-pack pull REFERENCE")
    return tuple(known) if every else tuple(dict.fromkeys(tasks))
