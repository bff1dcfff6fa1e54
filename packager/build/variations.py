"""What `reproduce` varies between two builds: values that must not show in an image, as a rebuild is told of them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from packager.base.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

DAYS = 400


@dataclass(frozen=True)
class Settings:
    """How a rebuild differs from an ordinary build; the defaults vary nothing."""

    env: Mapping[str, str] = field(default_factory=dict)
    umask: int | None = None
    host_name: str = ""
    clock_days: int = 0
    order_seed: int = 0
    cpus: tuple[int, ...] = ()
    user_namespace: bool = False
    in_memory: bool = False
    elsewhere: bool = False
    long_path: bool = False
    engine: str = ""

    def plain(self) -> dict[str, Any]:
        """Return the settings as JSON values."""
        return asdict(self)


@dataclass(frozen=True)
class Variation:
    """One thing that is varied: its name, the value in the rebuild, and what that means; or why it stays as it is."""

    name: str
    value: str
    possible: bool = True
    change: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def apply(self, settings: Settings) -> Settings:
        """Return settings that also have this variation."""
        change = dict(self.change)
        change["env"] = {**settings.env, **change.get("env", {})}
        return replace(settings, **change)


@dataclass(frozen=True)
class Here:
    """What is true of this machine and this process, and so decides what can be varied."""

    cpus: Sequence[int]
    umask: int
    environment: Mapping[str, str]
    may_map_users: bool = False
    memory: str = "no file system in memory can be mounted"
    """Why none can be used; empty if one can."""
    engines: Sequence[str] = ()


def variations(here: Here) -> tuple[Variation, ...]:
    """Return everything that is known to vary, in a fixed order."""
    mask = 0o022 if here.umask == 0o077 else 0o077  # noqa: PLR2004 - any other value
    zone = "America/St_Johns" if here.environment.get("TZ") != "America/St_Johns" else "Asia/Kathmandu"
    language = "de_DE.UTF-8" if here.environment.get("LC_ALL") != "de_DE.UTF-8" else "C"
    seed = "1" if here.environment.get("PYTHONHASHSEED") != "1" else "2"
    who = {"USER": "someone-else", "LOGNAME": "someone-else", "HOME": "/nonexistent"}
    return (
        Variation("clock", f"{DAYS} days ahead, for the packager's own code", change={"clock_days": DAYS}),
        Variation("host name", "rebuilt.example.org", change={"host_name": "rebuilt.example.org"}),
        Variation("user", "someone-else, without a home", change={"env": who}),
        Variation("umask", f"{mask:03o}", change={"umask": mask}),
        Variation("time zone", zone, change={"env": {"TZ": zone}}),
        Variation("locale", language, change={"env": {"LC_ALL": language, "LANG": language}}),
        Variation("hash seed", seed, change={"env": {"PYTHONHASHSEED": seed}}),
        Variation("working folder", "/", change={"elsewhere": True}),
        Variation("store path", "another one, much longer", change={"long_path": True}),
        Variation("file system", *_or(here.memory, "in memory (tmpfs)"), change={"in_memory": True}),
        Variation("directory order", "shuffled", change={"order_seed": 1}),
        _cpus(here),
        _user_namespace(here),
        _engine(here),
    )


def _or(reason: str, value: str) -> tuple[str, bool]:
    return (reason, False) if reason else (value, True)


def _cpus(here: Here) -> Variation:
    count = len(here.cpus)
    if count < 2:  # noqa: PLR2004 - one and only
        return Variation("cpus", "this process may use one processor only", possible=False)
    return Variation("cpus", f"1 instead of {count}", change={"cpus": (here.cpus[-1],)})


def _user_namespace(here: Here) -> Variation:
    if not here.may_map_users:
        return Variation("user namespace", "only root of the machine can map its ids", possible=False)
    return Variation("user namespace", "root of a user namespace, as rootless", change={"user_namespace": True})


def _engine(here: Here) -> Variation:
    """Return the other engines; each builds once more by itself, so that it changes no other rebuild."""
    if not here.engines:
        return Variation("engine", "no second engine works here; see wideswe-pack doctor", possible=False)
    return Variation("engine", ", ".join(here.engines))


def choose(known: Iterable[Variation], names: Collection[str]) -> tuple[Variation, ...]:
    """Return the named variations, or all if none is named; what has no such name is a UsageError."""
    rows = tuple(known)
    unknown = sorted(set(names) - {row.name for row in rows})
    if unknown:
        listed = ", ".join(row.name for row in rows)
        raise UsageError(f"nothing called {', '.join(unknown)} can be varied", hint=f"one of: {listed}")
    return tuple(row for row in rows if not names or row.name in names)


def together(rows: Iterable[Variation]) -> Settings:
    """Return the settings of a rebuild that has all variations at once."""
    settings = Settings()
    for row in rows:
        if row.possible:
            settings = row.apply(settings)
    return settings
