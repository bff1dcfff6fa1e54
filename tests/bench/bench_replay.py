"""What replaying recorded fetches costs: pip and npm through our proxy, beside the same client on a plain static index.

    python -m tests.bench.bench_replay [--rounds 9] [--packages 60] [--size 400000] [--folder DIR]

Packages are made up (random bytes, so that nothing compresses away), each of so many bytes, and installed from an empty
cache into an empty folder each time, turn about. Processor time is what a busy machine does not change. The plain index is a folder of static pages behind Python's own
http.server; the replay is a lock's fetches in a store behind the proxy that a sandbox sees, which hashes each blob once
and renders index pages. npm is left out where there is none.
"""

from __future__ import annotations

import abc
import argparse
import base64
import contextlib
import functools
import hashlib
import http.server
import io
import json
import os
import random
import shutil
import socket
import statistics
import sys
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from packager.base.digests import digest_of
from packager.base.processes import Surroundings, find_program, run_ok
from packager.lock.model import LockedBlob, LockedFetch
from packager.lock.replay import Replay
from packager.sandbox.proxy import Proxy
from packager.store.store import Store
from tests.support.http_server import LoopbackServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextlib.contextmanager
def plain_server(folder: Path) -> Iterator[str]:
    """Serve a folder as `python -m http.server` does, but without its log, its new connection for each file, or waits."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, *_: object) -> None:
            pass

        def guess_type(self, path: str | os.PathLike[str]) -> str:
            """Say that a page without ending is one."""
            return "application/json" if str(path).endswith(".json") else super().guess_type(path)

    with LoopbackServer(functools.partial(Quiet, directory=str(folder))) as server:
        yield server.url


@contextlib.contextmanager
def replay_server(store: Store, fetches: list[LockedFetch], folder: Path) -> Iterator[str]:
    """Serve a lock's fetches as a sandboxed command sees them, and check that nothing else was asked for."""
    replay = Replay(store, fetches, [])
    proxy = Proxy(replay, folder / "ca.pem")
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    proxy.start(listener)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        proxy.close()
    if replay.unknown():
        raise SystemExit(f"not in the lock: {replay.unknown()}")


class Packages(abc.ABC):
    """So many packages of one ecosystem: on disk as a plain index, in a store as fetches."""

    def __init__(self, folder: Path, count: int, size: int) -> None:
        self.folder = folder
        self.index = folder / "index"
        self.store = Store(folder / "store")
        self.names = [f"wide-{number:03}" for number in range(count)]
        self.fetches: list[LockedFetch] = []
        self._dice = random.Random(1)
        self._size = size

    @abc.abstractmethod
    def make(self) -> None:
        """Make the packages, the index and the fetches."""

    @abc.abstractmethod
    def install(self, where: dict[str, str]) -> None:
        """Install all of them into a new folder, from an empty cache."""

    @abc.abstractmethod
    def plain(self, url: str) -> dict[str, str]:
        """Return how the client is pointed at the plain index."""

    @abc.abstractmethod
    def replayed(self, url: str) -> dict[str, str]:
        """Return how the client is pointed at the replay."""

    def content(self) -> bytes:
        return self._dice.randbytes(self._size)

    def keep(self, alias: str, key: str, data: bytes) -> None:
        blob = LockedBlob(alias, key, self.store.put(data), len(data))
        self.fetches.append(LockedFetch("bench", blob, "application/octet-stream", f"pkg:generic/{key}", "recorded"))


class Wheels(Packages):
    """Wheels with one file of random bytes each."""

    def make(self) -> None:
        for name in self.names:
            module = name.replace("-", "_")
            file = f"{module}-1.0-py3-none-any.whl"
            data = self._wheel(module, name)
            page = self.index / "simple" / name / "index.html"
            page.parent.mkdir(parents=True)
            mark = digest_of(data).replace(":", "=")
            page.write_text(f'<!DOCTYPE html><a href="../../files/{file}#{mark}">{file}</a>')
            (self.index / "files").mkdir(exist_ok=True)
            (self.index / "files" / file).write_bytes(data)
            self.keep("pypi", file, data)

    def _wheel(self, module: str, name: str) -> bytes:
        info = f"{module}-1.0.dist-info"
        files = {
            f"{module}/data.bin": self.content(),
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n".encode(),
            f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: bench\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        }
        record = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            for path, data in {**files, f"{info}/RECORD": record.encode()}.items():
                archive.writestr(path, data)
        return out.getvalue()

    def install(self, where: dict[str, str]) -> None:
        """Install all of them into a new folder, from an empty cache."""
        with tempfile.TemporaryDirectory(dir=self.folder) as target:
            argv = [sys.executable, "-m", "pip", "install", "-q", "--no-cache-dir", "--no-deps", "--no-compile"]
            argv += ["--disable-pip-version-check", "--root-user-action", "ignore", "--target", target, *self.names]
            run_ok(argv, Surroundings(env={**clean(), **where}, timeout_s=600))

    def plain(self, url: str) -> dict[str, str]:
        return {"PIP_INDEX_URL": f"{url}/simple/", "PIP_TRUSTED_HOST": "127.0.0.1"}

    def replayed(self, url: str) -> dict[str, str]:
        return {"PIP_INDEX_URL": "http://pypi.invalid/simple/", "PIP_TRUSTED_HOST": "pypi.invalid", "http_proxy": url}


class Tarballs(Packages):
    """npm packages, and a project with a lock file that names all of them."""

    def make(self) -> None:
        rows: dict[str, object] = {}
        for name in self.names:
            data = self._tarball(name)
            integrity = "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()
            file = f"{name}-1.0.0.tgz"
            place = self.index / name / "-" / file
            place.parent.mkdir(parents=True)
            place.write_bytes(data)
            self.keep("npm", f"{name}/-/{file}", data)
            address = f"http://npm.invalid/{name}/-/{file}"
            rows[f"node_modules/{name}"] = {"version": "1.0.0", "resolved": address, "integrity": integrity}
        wanted = dict.fromkeys(self.names, "1.0.0")
        root = {"name": "bench", "version": "1.0.0", "dependencies": wanted}
        lock = {"name": "bench", "version": "1.0.0", "lockfileVersion": 3, "packages": {"": root, **rows}}
        project = self.folder / "project"
        project.mkdir()
        (project / "package.json").write_text(json.dumps(root))
        (project / "package-lock.json").write_text(json.dumps(lock))

    def _tarball(self, name: str) -> bytes:
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w:gz", compresslevel=1) as archive:
            files = {"package.json": json.dumps({"name": name, "version": "1.0.0"}).encode(), "data": self.content()}
            for path, data in files.items():
                member = tarfile.TarInfo(f"package/{path}")
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
        return out.getvalue()

    def install(self, where: dict[str, str]) -> None:
        """Run npm ci in a copy of the project, from an empty cache."""
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            project = Path(folder, "project")
            shutil.copytree(self.folder / "project", project)
            env = {
                **clean(),
                "HOME": folder,
                "npm_config_cache": f"{folder}/cache",
                "npm_config_replace_registry_host": "always",
                "npm_config_audit": "false",
                "npm_config_fund": "false",
                "npm_config_update_notifier": "false",
                "npm_config_logs_max": "0",
                **where,
            }
            run_ok(["npm", "ci", "--silent"], Surroundings(env=env, cwd=project, timeout_s=600))

    def plain(self, url: str) -> dict[str, str]:
        return {"npm_config_registry": f"{url}/"}

    def replayed(self, url: str) -> dict[str, str]:
        return {"npm_config_registry": "http://npm.invalid/", "npm_config_proxy": url, "http_proxy": url}


def clean() -> dict[str, str]:
    """Return the environment without what points package clients elsewhere."""
    prefixes = ("pip_", "npm_config_", "http_proxy", "https_proxy", "no_proxy", "uv_")
    return {name: value for name, value in os.environ.items() if not name.lower().startswith(prefixes)}


def compare(name: str, packages: Packages, rounds: int) -> None:
    """Install from either in turn; print medians, and the median of the ratios of each round."""
    packages.make()
    found: list[tuple[Spent, Spent]] = []
    for _ in range(rounds + 1):
        with plain_server(packages.index) as url:
            plain = measure(packages.install, packages.plain(url))
        with replay_server(packages.store, packages.fetches, packages.folder) as url:
            found.append((plain, measure(packages.install, packages.replayed(url))))
    found = found[1:]  # the first round warms the clients up
    for number, kind in enumerate(("plain index", "replay")):
        walls, cpus = zip(*(row[number] for row in found), strict=True)
        sys.stdout.write(
            f"{name + ', ' + kind:26} {statistics.median(walls):9.1f} ms {statistics.median(cpus):9.1f} ms CPU\n"
        )
    wall, cpu = (statistics.median(replay[unit] / plain[unit] for plain, replay in found) for unit in (0, 1))
    sys.stdout.write(f"{name}: replay takes {wall:.3f} times as long and {cpu:.3f} times the CPU time\n")
    sys.stdout.flush()


Spent = tuple[float, float]
"""Milliseconds by the clock, and of processor time: the client's and that of the server, which is in this process."""


def measure(work: Callable[[dict[str, str]], None], where: dict[str, str]) -> Spent:
    started, before = time.perf_counter(), sum(os.times()[:4])
    work(where)
    return (time.perf_counter() - started) * 1000, (sum(os.times()[:4]) - before) * 1000


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--packages", type=int, default=60)
    parser.add_argument("--size", type=int, default=400_000)
    parser.add_argument("--folder", default=None)
    options = parser.parse_args()
    sys.stdout.write(f"{options.packages} packages of {options.size} bytes, {os.cpu_count()} processors\n")
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        compare("pip install", Wheels(Path(name, "pip"), options.packages, options.size), options.rounds)
        if find_program("npm") is None:
            sys.stdout.write("no npm here: left out\n")
            return
        compare("npm ci", Tarballs(Path(name, "npm"), options.packages, options.size), options.rounds)


if __name__ == "__main__":
    main()
