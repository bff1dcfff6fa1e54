"""Python packages for pip and uv."""

from __future__ import annotations

import email
import re
import tarfile
import threading
import zipfile
from dataclasses import replace
from typing import IO, TYPE_CHECKING, cast
from urllib.parse import quote, unquote, urljoin, urlsplit

from packager.base.errors import InputError
from packager.lock.ecosystems.asked import Asked, Held, Promise, Row, Sort, below
from packager.lock.ecosystems.hashing import hex_hash
from packager.lock.ecosystems.pip_index import (
    ACCEPT,
    JSON,
    IndexFile,
    file_path,
    format_page,
    format_release,
    is_distribution,
    normalise,
    parse_page,
    project_and_version,
    wants_json,
)
from packager.lock.ecosystems.pip_locks import read_promises
from packager.lock.upstream import ABSENT
from packager.sandbox.fetches import Answer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from packager.lock.upstream import Upstream
    from packager.sandbox.fetches import Request

_METADATA_BYTES = 4 << 20
_LONG_AGO = "1980-01-01T00:00:00Z"
"""Offered as upload time in replay: before every `exclude-newer`, since only locked files are listed."""


class PythonPackages:
    """The registry `pypi`; remembers which addresses the index gave for files."""

    alias = "pypi"
    rows = (Row("pip"), Row("uv"), Row("poetry"), Row("pdm"))
    always_lists = False

    def __init__(self) -> None:
        self._urls: dict[str, str] = {}
        self._lock = threading.Lock()

    def environment(self) -> Mapping[str, str]:
        """Point clients at the alias host (poetry knows its own only); nothing that they install tells the hour."""
        return {
            "PIP_INDEX_URL": "http://pypi.invalid/simple/",
            "PIP_TRUSTED_HOST": "pypi.invalid",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_NO_CACHE_DIR": "1",
            "PIP_DEFAULT_TIMEOUT": "600",
            "PIP_RETRIES": "0",
            "PIP_ROOT_USER_ACTION": "ignore",
            "PIP_NO_INPUT": "1",
            "POETRY_CACHE_DIR": "/tmp/poetry-cache",  # noqa: S108 - inside the sandbox, dropped from layers
            "POETRY_NO_INTERACTION": "1",
            "PDM_CACHE_DIR": "/tmp/pdm-cache",  # noqa: S108 - as above
            "PDM_CHECK_UPDATE": "0",
            "PDM_LOG_DIR": "/tmp/pdm-log",  # noqa: S108 - as above
            "PDM_PYPI_URL": "http://pypi.invalid/simple/",
            "PDM_PYPI_VERIFY_SSL": "0",
            "PDM_REQUEST_TIMEOUT": "600",
            "VIRTUALENV_OVERRIDE_APP_DATA": "/tmp/virtualenv",  # noqa: S108 - as above; poetry and pdm make theirs with it
            "UV_DEFAULT_INDEX": "http://pypi.invalid/simple/",
            "UV_INSECURE_HOST": "pypi.invalid",
            "UV_NO_INSTALLER_METADATA": "1",
            "UV_LINK_MODE": "copy",
            "UV_COMPILE_BYTECODE": "0",
            "UV_NO_CACHE": "1",
            "UV_HTTP_TIMEOUT": "600",
            "UV_HTTP_RETRIES": "0",
            "UV_PYTHON_DOWNLOADS": "never",
        }

    def asked(self, path: str) -> Asked | None:
        """Tell project pages from files."""
        parts = unquote(path.partition("?")[0]).strip("/").split("/")
        match parts:
            case ["simple", project]:
                return Asked(Sort.INDEX, f"simple/{normalise(project)}/")
            case ["pypi", project, version, "json"]:
                return Asked(Sort.INDEX, f"simple/{normalise(project)}/", version)
            case ["files", filename] if is_distribution(filename):
                return Asked(Sort.ARTIFACT, filename)
        return None

    def guess(self, path: str) -> Asked | None:
        """Take the end of a path for a project's page or a distribution's file name."""
        parts = unquote(path.partition("?")[0]).strip("/").split("/")
        if parts[-4:-3] == ["pypi"] and parts[-1] == "json":
            return self.asked("/".join(parts[-4:]))
        if len(parts) > 1 and parts[-2] == "simple":
            return Asked(Sort.INDEX, f"simple/{normalise(parts[-1])}/")
        return Asked(Sort.ARTIFACT, parts[-1]) if is_distribution(parts[-1]) else None

    def shelf(self, asked: Asked) -> str:
        """Return the project."""
        return asked.key.split("/")[1] if asked.sort is Sort.INDEX else project_and_version(asked.key)[0]

    def purl(self, key: str) -> str:
        """Return pkg:pypi/<project>@<version>."""
        project, version = project_and_version(key)
        return f"pkg:pypi/{quote(project)}@{quote(version)}"

    def media_type(self, key: str) -> str:
        """Return what indexes serve: pip looks at a file's name only."""
        return "application/gzip" if key.endswith(".tar.gz") else "application/octet-stream"

    def canonical(self, key: str) -> Callable[[bytes], bytes] | None:
        """Keep files as they are."""
        del key
        return None

    def claims(self, url: str, upstream: Upstream) -> Asked | None:
        """Claim pages and files of the configured index, and of the index that pip was made for: it has the same."""
        base = upstream.clients.base_url(self.alias)
        site, files = upstream.clients.pypi_sites
        for top in filter(None, (base.removesuffix("/simple"), site)):
            path = below(url, top)
            asked = None if path is None else self.asked(path)
            if asked is not None and asked.sort is Sort.INDEX:
                return asked
        path = below(url, base)
        if path is not None and path.strip("/") and "/" not in path.strip("/"):
            return Asked(Sort.INDEX, f"simple/{normalise(unquote(path.strip('/')))}/")
        filename = unquote(urlsplit(url).path.rpartition("/")[2])
        if not is_distribution(filename):
            return None
        ours = urljoin(f"{base}/project/", file_path(filename))
        known = urlsplit(url).netloc == files or url.partition("#")[0] in (ours, *self.locate(filename, upstream))
        return Asked(Sort.ARTIFACT, filename) if known else None

    def locate(self, key: str, upstream: Upstream) -> Sequence[str]:
        """Ask the project's page for a file's address; nothing when it lists none of that name."""
        with self._lock:
            known = self._urls.get(key)
        if known is None:
            self._read_project(project_and_version(key)[0], upstream)
            known = self._urls.get(key)
        return [known] if known else []

    def index(self, asked: Asked, request: Request, upstream: Upstream) -> Answer:
        """Return a project's page with all its files, offered below the alias host."""
        project = asked.key.split("/")[1]
        files = self._read_project(project, upstream)
        if files is None:
            return _absent()
        return _page(asked, [_moved(file) for file in files], request)

    def render(self, asked: Asked, request: Request, held: Sequence[Held]) -> Answer:
        """Return a project's page with its locked files."""
        files = [
            IndexFile(
                name=one.key,
                url=file_path(one.key),
                hashes=(("sha256", one.digest.removeprefix("sha256:")),),
                requires_python=requires_python(one.path, one.key),
                upload_time=_LONG_AGO,
                size=one.size,
            )
            for one in held
        ]
        return _page(asked, files, request)

    def promises(self, name: str, data: bytes) -> list[Promise]:
        """Read requirements files with hashes, and the lock files of uv, poetry and pdm."""
        return read_promises(name, data)

    def subject(self, key: str) -> str:
        """Return the package URL: a requirement's hashes speak for all files of a version."""
        return self.purl(key)

    def measure(self, path: Path, algorithm: str) -> str:
        """Return `<algorithm>:<hex>`."""
        return hex_hash(path, algorithm)

    def _read_project(self, project: str, upstream: Upstream) -> list[IndexFile] | None:
        url = f"{upstream.clients.base_url(self.alias)}/{quote(project)}/"
        page = upstream.document(url, accept=ACCEPT)
        if page.status in ABSENT:
            return None
        files = parse_page(page.body, page.media_type, page.url)
        with self._lock:
            self._urls.update({file.name: file.url for file in files})
        return files


def requires_python(path: Path, filename: str) -> str:
    """Return the Requires-Python of a distribution from its own metadata, or an empty string."""
    try:
        metadata = _wheel_metadata(path) if filename.endswith(".whl") else _sdist_metadata(path, filename)
    except (zipfile.BadZipFile, tarfile.TarError, OSError, KeyError, EOFError) as error:
        raise InputError(f"the distribution cannot be read: {error}", where=filename) from error
    return str(email.message_from_bytes(metadata).get("Requires-Python", "")).strip()


def _wheel_metadata(path: Path) -> bytes:
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", name)]
        if not names:
            return b""
        with archive.open(names[0]) as stream:
            return stream.read(_METADATA_BYTES)


def _sdist_metadata(path: Path, filename: str) -> bytes:
    if filename.endswith(".zip"):
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if re.fullmatch(r"[^/]+/PKG-INFO", name)]
            return archive.read(names[0])[:_METADATA_BYTES] if names else b""
    with tarfile.open(path, "r:*") as archive:
        for member in archive:
            if member.isfile() and re.fullmatch(r"(\./)?[^/]+/PKG-INFO", member.name):
                return cast("IO[bytes]", archive.extractfile(member)).read(_METADATA_BYTES)
    return b""


def _page(asked: Asked, files: Sequence[IndexFile], request: Request) -> Answer:
    project = asked.key.split("/")[1]
    if asked.detail:
        body = format_release(project, asked.detail, [replace(file, url=_address(file.name)) for file in files])
        return _absent() if body is None else Answer(200, "application/json", body)
    as_json = wants_json(request.headers.get("accept", ""))
    return Answer(200, JSON if as_json else "text/html", format_page(project, files, as_json=as_json))


def _address(filename: str) -> str:
    return f"http://pypi.invalid/files/{quote(filename, safe='')}"


def _absent() -> Answer:
    return Answer(404, "text/plain", b"not found\n")


def _moved(file: IndexFile) -> IndexFile:
    return IndexFile(
        file.name, file_path(file.name), file.hashes, file.requires_python, file.yanked, file.upload_time, file.size
    )
