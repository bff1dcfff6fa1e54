"""Rows of a crates index, made from what a crate's own Cargo.toml says (the Cargo Book, registry index format)."""

from __future__ import annotations

import json
import tarfile
import tomllib
from typing import IO, TYPE_CHECKING, Any, cast

from packager.base.errors import InputError
from packager.lock.ecosystems.versions import order_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from packager.lock.ecosystems.asked import Held

_MANIFEST_BYTES = 16 << 20
_KINDS = {"dependencies": "normal", "dev-dependencies": "dev", "build-dependencies": "build"}
_OLD_KINDS = {"dev_dependencies": "dev", "build_dependencies": "build"}


def place_in_index(name: str) -> str:
    """Return the path of a crate's page: `1/a`, `2/ab`, `3/a/abc`, `se/rd/serde`."""
    plain = name.lower()
    if len(plain) <= 2:  # noqa: PLR2004 - the layout's own rule
        return f"{len(plain)}/{plain}"
    if len(plain) == 3:  # noqa: PLR2004
        return f"3/{plain[0]}/{plain}"
    return f"{plain[:2]}/{plain[2:4]}/{plain}"


def split_key(key: str) -> tuple[str, str]:
    """Return name and version of `<name>/<name>-<version>.crate`."""
    name, _, file = key.partition("/")
    version = file.removeprefix(f"{name}-").removesuffix(".crate")
    if not name or not version or file != f"{name}-{version}.crate":
        raise InputError(f"expected <name>/<name>-<version>.crate, found {key[:120]!r}", where="crates")
    return name, version


def format_page(held: Sequence[Held]) -> bytes:
    """Return a crate's page: one row of JSON for each locked version, oldest first."""
    rows = sorted((row_of(one) for one in held), key=lambda row: order_of(str(row["vers"])))
    return b"".join(json.dumps(row, sort_keys=True, separators=(",", ":")).encode() + b"\n" for row in rows)


def row_of(one: Held) -> dict[str, Any]:
    """Return what an index says of one version."""
    name, version = split_key(one.key)
    try:
        return _row(read_manifest(one, f"{name}-{version}/Cargo.toml"), one, version)
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"expected a manifest of a published crate: {error!r}", where=one.key) from error


def read_manifest(one: Held, member: str) -> dict[str, Any]:
    """Return the Cargo.toml of a crate file."""
    try:
        with tarfile.open(one.path, "r|gz") as archive:
            found = next((entry for entry in archive if entry.name == member and entry.isfile()), None)
            if found is not None:
                stream = cast("IO[bytes]", archive.extractfile(found))
                return tomllib.loads(stream.read(_MANIFEST_BYTES).decode())
    except (tarfile.TarError, OSError, EOFError, ValueError) as error:
        raise InputError(f"the crate cannot be read: {error}", where=one.key) from error
    raise InputError(f"expected {member} in the crate, found none", where=one.key)


def _row(manifest: Mapping[str, Any], one: Held, version: str) -> dict[str, Any]:
    package = manifest.get("package") or manifest["project"]
    features = {name: list(values) for name, values in manifest.get("features", {}).items()}
    newer = {name: values for name, values in features.items() if any(map(_is_newer, values))}
    row = {
        "name": package["name"],
        "vers": version,
        "deps": sorted(_dependencies(manifest), key=lambda found: json.dumps(found, sort_keys=True)),
        "cksum": one.digest.removeprefix("sha256:"),
        "features": {name: values for name, values in features.items() if name not in newer},
        "yanked": False,
        "links": package.get("links"),
    }
    if newer:
        row |= {"features2": newer, "v": 2}
    if "rust-version" in package:
        row["rust_version"] = package["rust-version"]
    return row


def _is_newer(value: str) -> bool:
    """Say whether a feature's part is of the syntax that cargo before 1.60 must not see."""
    return value.startswith("dep:") or "?/" in value


def _dependencies(manifest: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    yield from _of_table(manifest, None)
    for target, table in manifest.get("target", {}).items():
        yield from _of_table(table, target)


def _of_table(table: Mapping[str, Any], target: str | None) -> Iterator[dict[str, Any]]:
    for section, kind in (_KINDS | _OLD_KINDS).items():
        for name, said in table.get(section, {}).items():
            wish = {"version": said} if isinstance(said, str) else said
            if "version" in wish or "path" not in wish:  # a path without version was for the author's tests alone
                yield _dependency(name, wish, kind, target)


def _dependency(name: str, wish: Mapping[str, Any], kind: str, target: str | None) -> dict[str, Any]:
    row = {
        "name": name,
        "req": wish.get("version", "*"),
        "features": list(wish.get("features", ())),
        "optional": bool(wish.get("optional", False)),
        "default_features": bool(wish.get("default-features", wish.get("default_features", True))),
        "target": target,
        "kind": kind,
    }
    if "package" in wish:
        row["package"] = wish["package"]
    if "registry-index" in wish:
        row["registry"] = wish["registry-index"]
    return row
