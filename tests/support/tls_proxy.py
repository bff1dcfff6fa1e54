"""The sandbox's own proxy on this machine's loopback, for clients that run outside of a sandbox and speak TLS."""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from packager.sandbox.identity import proxy_environment
from packager.sandbox.proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from packager.sandbox.fetches import FetchSource

_KEPT = ("PATH", "LANG", "PYENV_VERSION", "PYENV_ROOT")


@contextlib.contextmanager
def serve_tls(source: FetchSource) -> Iterator[Mapping[str, str]]:
    """Serve a source; give the environment in which clients use it, as a sandboxed command has it."""
    with tempfile.TemporaryDirectory() as folder:
        ca_file = Path(folder) / "ca.pem"
        proxy = Proxy(source, ca_file)
        listener = socket.create_server(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        proxy.start(listener)
        theirs = {
            name: value.replace("/run/wideswe/ca.pem", str(ca_file)).replace(":3128", f":{port}")
            for name, value in proxy_environment().items()
        }
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        try:
            rustup = {"RUSTUP_HOME": os.environ.get("RUSTUP_HOME", str(Path.home() / ".rustup"))}
            yield {**kept, **rustup, **source.environment(), **theirs}
        finally:
            proxy.close()
