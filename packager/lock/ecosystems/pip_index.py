"""The simple index of Python packages (PEP 503, 691, 700): read in both of its forms, written in both."""

from __future__ import annotations

import html
import json
import re
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urldefrag, urljoin, urlsplit

from packager.base.canonical import format_canonical
from packager.base.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

JSON = "application/vnd.pypi.simple.v1+json"
ACCEPT = f"{JSON}, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
_STAGES = {"alpha": "a", "beta": "b", "preview": "rc", "pre": "rc", "c": "rc"}
_VERSION = re.compile(
    r"v?(?:(\d+)!)?(\d+(?:\.\d+)*)(?:[-_.]?(a|b|c|rc|alpha|beta|preview|pre)[-_.]?(\d*))?"
    r"(?:-(\d+)|[-_.]?(post|rev|r)[-_.]?(\d*))?(?:[-_.]?(dev)[-_.]?(\d*))?(?:\+([a-z0-9._-]+))?",
    re.ASCII,
)
_SUFFIXES = (".whl", ".tar.gz", ".zip", ".tar.bz2", ".tar.xz", ".egg")


@dataclass(frozen=True)
class IndexFile:
    """One file of a project: its name, where it is, and what the index says of it."""

    name: str
    url: str
    hashes: tuple[tuple[str, str], ...] = ()
    requires_python: str = ""
    yanked: str | bool = False
    upload_time: str = ""
    size: int | None = None


def normalise(project: str) -> str:
    """Return a project's name as indexes spell it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", project).lower()


def is_distribution(filename: str) -> bool:
    """Say whether a file name is one of a wheel or source distribution."""
    return filename.endswith(_SUFFIXES) and "-" in filename


def project_and_version(filename: str) -> tuple[str, str]:
    """Return normalised project and version of a distribution's file name, or raise InputError."""
    if filename.endswith(".whl"):
        project, _, rest = filename.partition("-")
        version = rest.partition("-")[0]
    else:
        suffix = next((suffix for suffix in _SUFFIXES if filename.endswith(suffix)), "")
        stem = filename.removesuffix(suffix) if suffix else ""
        found = re.fullmatch(r"(.+?)-(v?\d[^-]*(?:-\d+)?)(?:-py\d\S*)?", stem)
        project, version = (found[1], found[2]) if found else stem.rpartition("-")[::2]
    if not project or not version:
        raise InputError(f"expected a wheel or source distribution, found {filename[:120]!r}", where="pypi")
    return normalise(project), version


def parse_page(body: bytes, media_type: str, url: str) -> list[IndexFile]:
    """Return the files of a project's page; addresses are made absolute against `url`."""
    return _parse_json(body, url) if media_type.endswith("+json") else _parse_html(body, url)


def format_page(project: str, files: Sequence[IndexFile], *, as_json: bool) -> bytes:
    """Return a project's page; core metadata and signatures are not offered, so that only whole files are fetched."""
    ordered = sorted(files, key=lambda file: file.name)
    return _format_json(project, ordered) if as_json else _format_html(project, ordered)


def format_release(project: str, version: str, files: Sequence[IndexFile]) -> bytes | None:
    """Return one version as the site's own JSON interface gives it, which poetry asks; None when it has no files.

    It does not say what a version depends on, so that clients look into its files.
    """
    rows = [
        {
            "filename": file.name,
            "url": file.url,
            "digests": dict(file.hashes),
            "packagetype": "bdist_wheel" if file.name.endswith(".whl") else "sdist",
            "requires_python": file.requires_python or None,
            "size": file.size,
            "upload_time_iso_8601": file.upload_time or None,
            "yanked": file.yanked is not False,
            "yanked_reason": file.yanked if isinstance(file.yanked, str) else None,
        }
        for file in sorted(files, key=lambda file: file.name)
        if is_distribution(file.name) and same_version(project_and_version(file.name)[1], version)
    ]
    info = {"name": project, "version": version, "requires_dist": None, "requires_python": None, "summary": ""}
    return format_canonical({"info": info, "urls": rows}) if rows else None


def same_version(one: str, other: str) -> bool:
    """Say whether two spellings mean one version (PEP 440)."""
    return _plain_version(one) == _plain_version(other)


def _plain_version(version: str) -> tuple[str, ...]:
    found = _VERSION.fullmatch(version.lower().strip())
    if found is None:
        return (version,)
    epoch, release, stage, stage_number, post, post_word, post_number, dev, dev_number, local = found.groups(default="")
    return (
        epoch or "0",
        re.sub(r"(\.0+)+$", "", release),
        _STAGES.get(stage, stage) + (stage_number or "0") if stage else "",
        post or post_number or "0" if post or post_word else "",
        dev_number or "0" if dev else "",
        re.sub("[-_]", ".", local),
    )


def wants_json(accept: str) -> bool:
    """Say whether a client prefers the JSON form; pip and uv do."""
    return "application/vnd.pypi.simple.v1+json" in accept or "application/vnd.pypi.simple.latest+json" in accept


def _parse_json(body: bytes, url: str) -> list[IndexFile]:
    try:
        rows: list[dict[str, Any]] = json.loads(body)["files"]
        return [
            IndexFile(
                name=str(row["filename"]),
                url=urldefrag(urljoin(url, str(row["url"]))).url,
                hashes=tuple(sorted((str(name), str(value)) for name, value in row.get("hashes", {}).items())),
                requires_python=str(row.get("requires-python") or ""),
                yanked=row.get("yanked", False),
                upload_time=str(row.get("upload-time") or ""),
                size=row.get("size"),
            )
            for row in rows
        ]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"expected a project's page of a simple index, found {body[:60]!r}", where="pypi") from error


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.rows: list[dict[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.rows.append({name: value or "" for name, value in attrs})


def _parse_html(body: bytes, url: str) -> list[IndexFile]:
    links = _Links()
    links.feed(body.decode(errors="replace"))
    found = []
    for row in links.rows:
        plain, fragment = urldefrag(urljoin(url, row.get("href", "")))
        algorithm, equals, value = fragment.partition("=")
        found.append(
            IndexFile(
                name=unquote(urlsplit(plain).path.rpartition("/")[2]),
                url=plain,
                hashes=((algorithm, value),) if equals else (),
                requires_python=row.get("data-requires-python", ""),
                yanked=(row["data-yanked"] or True) if "data-yanked" in row else False,
            )
        )
    return found


def _format_json(project: str, files: Sequence[IndexFile]) -> bytes:
    rows: list[dict[str, Any]] = []
    for file in files:
        row: dict[str, Any] = {
            "filename": file.name,
            "url": file.url,
            "hashes": dict(file.hashes),
            "yanked": file.yanked,
            "core-metadata": False,
        }
        optional = {"requires-python": file.requires_python, "upload-time": file.upload_time, "size": file.size}
        rows.append(row | {name: value for name, value in optional.items() if value not in ("", None)})
    versions = sorted({project_and_version(file.name)[1] for file in files if is_distribution(file.name)})
    return format_canonical({"meta": {"api-version": "1.1"}, "name": project, "versions": versions, "files": rows})


def _format_html(project: str, files: Sequence[IndexFile]) -> bytes:
    lines = [
        "<!DOCTYPE html>",
        f'<html><head><meta name="pypi:repository-version" content="1.0"><title>{html.escape(project)}</title></head>',
        "<body>",
    ]
    for file in files:
        strongest = dict(file.hashes).get("sha256")
        fragment = f"#sha256={strongest}" if strongest else ""
        attributes = [f'href="{html.escape(file.url + fragment)}"']
        if file.requires_python:
            attributes.append(f'data-requires-python="{html.escape(file.requires_python)}"')
        if file.yanked is not False:
            reason = file.yanked if isinstance(file.yanked, str) else ""
            attributes.append(f'data-yanked="{html.escape(reason)}"')
        lines.append(f"<a {' '.join(attributes)}>{html.escape(file.name)}</a><br>")
    return ("\n".join([*lines, "</body></html>"]) + "\n").encode()


def file_path(filename: str) -> str:
    """Return where our index offers a file, relative to a project's page."""
    return f"../../files/{quote(filename, safe='')}"
