"""Services that a task declares, such as a database: started beside the tests, in their sandbox, and gone with it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

NOT_READY = 97
"""The exit code of a test command whose services did not come up."""

_TRIES = 600
_BETWEEN_S = "0.1"


class Service(NamedTuple):
    """A program that runs beside the tests on loopback; `ready` exits 0 once it answers."""

    name: str
    run: str
    ready: str


def with_services(script: str, services: Sequence[Service], *, tries: int = _TRIES) -> str:
    """Return a shell script that starts services, waits until each is ready, and then runs `script`.

    What a service writes goes to standard error: standard output belongs to the tests. Everything ends with the script.
    """
    if not services:
        return script
    lines = [f"( cd / && {{ {one.run}\n}} ) </dev/null >&2 &" for one in services]
    for one in services:
        told = shlex.quote(f"wideswe-pack: the service {one.name} was not ready in time")
        lines += [
            "tries=0",
            f"until ( cd / && {{ {one.ready}\n}} ) </dev/null >/dev/null 2>&1; do",
            f"  tries=$((tries + 1)); [ $tries -lt {tries} ] || {{ echo {told} >&2; exit {NOT_READY}; }}",
            f"  sleep {_BETWEEN_S}",
            "done",
        ]
    return "\n".join((*lines, "(", script, ")"))
