"""What serves the loopback port of a command: a proxy that asks a source, or a relay to a socket of the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.sandbox.identity import proxy_environment

if TYPE_CHECKING:
    from pathlib import Path

    from packager.sandbox.fetches import Reachable
    from packager.sandbox.proxy import Proxy
    from packager.sandbox.relay import RelayServer


def open_loopback(reachable: Reachable, ca_file: Path) -> Proxy | RelayServer:
    """Return what is to be started with the listening socket; `ca_file` is where a proxy keeps its certificate."""
    from packager.sandbox.fetches import Relay  # noqa: PLC0415 - tests fetch nothing

    if isinstance(reachable, Relay):
        from packager.sandbox.relay import RelayServer  # noqa: PLC0415 - no step of a build needs it

        return RelayServer(reachable.path)
    from packager.sandbox.proxy import Proxy  # noqa: PLC0415 - brings TLS, which few commands need

    return Proxy(reachable, ca_file)


def loopback_environment(reachable: Reachable) -> dict[str, str]:
    """Return the variables that tell a command of it; they win over its own."""
    from packager.sandbox.fetches import Relay  # noqa: PLC0415 - tests fetch nothing

    return {} if isinstance(reachable, Relay) else {**reachable.environment(), **proxy_environment()}
