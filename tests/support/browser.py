"""A headless Chromium, driven through chromedriver's own protocol (W3C WebDriver)."""

from __future__ import annotations

import base64
import contextlib
import os
import shutil
import socket
import subprocess
import time
from typing import TYPE_CHECKING, Any

import requests

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_QUIET = (
    "--headless=new", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--window-size=1600,1200",
)  # fmt: skip


def missing_browser() -> str:
    """Return which program is not there, or nothing."""
    return next((name for name in ("chromium", "chromedriver") if shutil.which(name) is None), "")


class Page:
    """One tab."""

    def __init__(self, session: str) -> None:
        self._session = session

    def open(self, path: Path) -> None:
        self._post("url", url=path.resolve().as_uri())

    def ask(self, script: str) -> Any:
        """Run a script in the page and return what it returns."""
        return self._post("execute/sync", script=script, args=[])

    def screenshot(self) -> bytes:
        """Return what is seen, as PNG."""
        answer = requests.get(f"{self._session}/screenshot", timeout=60)
        return base64.b64decode(answer.json()["value"])

    def _post(self, what: str, **body: Any) -> Any:
        answer = requests.post(f"{self._session}/{what}", json=body, timeout=60)
        assert answer.ok, answer.text
        return answer.json()["value"]


@contextlib.contextmanager
def browser(profile: Path) -> Iterator[Page]:
    """Start a browser with an empty profile, and end it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    root = f"http://127.0.0.1:{port}"
    driver = subprocess.Popen(["chromedriver", f"--port={port}", "--silent"], start_new_session=True)
    try:
        _await(root)
        switches = [*_QUIET, f"--user-data-dir={profile}", *(["--no-sandbox"] if os.getuid() == 0 else [])]
        wanted = {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": {"args": switches}}}
        begun = requests.post(f"{root}/session", json={"capabilities": wanted}, timeout=60).json()["value"]
        session = f"{root}/session/{begun['sessionId']}"
        try:
            yield Page(session)
        finally:
            requests.delete(session, timeout=60)
    finally:
        driver.terminate()
        driver.wait(20)


def _await(root: str) -> None:
    until = time.monotonic() + 30
    while True:
        try:
            if requests.get(f"{root}/status", timeout=5).json()["value"]["ready"]:
                return
        except (requests.ConnectionError, KeyError):
            pass
        assert time.monotonic() < until, "chromedriver does not answer"
        time.sleep(0.1)
