"""Which derivation gave which layer: what a build remembers of itself, so that it can be explained and compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from packager.base.canonical import LIMIT_BYTES, format_canonical, parse_json
from packager.base.errors import InputError
from packager.build.results import format_layer, parse_layer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from packager.base.digests import Digest
    from packager.build.dockerfile import Instruction
    from packager.oci.layer import Layer
    from packager.store.store import Store

NAMES = "derivations"
"""The kind of names under which a store keeps the steps of each task's last build."""

_SHOWN = 72


@dataclass(frozen=True)
class Traced:
    """An instruction that was carried out: its derivation's key, and the layer (None: it changed nothing)."""

    instruction: Instruction
    key: Digest
    layer: Layer | None


Tracer = Callable[[Traced], object]


def untraced(_: Traced) -> None:
    """Remember nothing."""


@dataclass(frozen=True)
class Step:
    """A step of a build that is remembered: instruction, name (may be empty), what its key is made of, its layer."""

    instruction: str
    name: str
    line: int
    key: Mapping[str, Any]
    layer: Layer | None

    @property
    def label(self) -> str:
        """What people call the step: its name, or its line in the Dockerfile and what it says."""
        said = " ".join(self.instruction.split())
        short = said if len(said) <= _SHOWN else f"{said[:_SHOWN]}…"
        return self.name or f"Dockerfile:{self.line} {short}"


def steps_of(traced: Iterable[Traced], store: Store) -> tuple[Step, ...]:
    """Return what is to be remembered of a build; every build writes its keys to the store."""
    return tuple(
        Step(
            f"{one.instruction.kind} {one.instruction.arguments}",
            one.instruction.step,
            one.instruction.line,
            parse_json(store.read(one.key, LIMIT_BYTES), where=f"derivation {one.key}"),
            one.layer,
        )
        for one in traced
    )


def format_steps(steps: Iterable[Step]) -> bytes:
    """Return steps as canonical JSON."""
    rows = [
        {
            "instruction": step.instruction,
            "step": step.name,
            "line": step.line,
            "key": step.key,
            "layer": parse_json(format_layer(step.layer), where="layer"),
        }
        for step in steps
    ]
    return format_canonical(rows)


def parse_steps(data: bytes, *, where: str) -> tuple[Step, ...]:
    """Return steps, or raise InputError."""
    rows = parse_json(data, where=where)
    try:
        return tuple(
            Step(
                str(row["instruction"]),
                str(row["step"]),
                int(row["line"]),
                dict(row["key"]),
                parse_layer(format_canonical(row["layer"])),
            )
            for row in rows
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InputError("expected the steps of a build", where=where) from error
