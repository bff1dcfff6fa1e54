"""The scorer as one file: the modules of this package that it needs, and stand-ins for what an image lacks.

The same settings and source give the same bytes.
"""

from __future__ import annotations

import ast
import importlib.util
import io
import sys
import zipfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import packager
from packager.evaluate.readers import READERS
from packager.export.scorer import STANDARD_MEMBER

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_PACKAGE = Path(packager.__file__).parent
_CRYPTO, _XML = "packager.export.plain_crypto", "packager.export.plain_xml"
STAND_INS = {
    "cryptography.exceptions": (_CRYPTO, "InvalidTag"),
    "cryptography.hazmat.primitives.asymmetric.x25519": (_CRYPTO, "X25519PrivateKey, X25519PublicKey"),
    "cryptography.hazmat.primitives.ciphers.aead": (_CRYPTO, "ChaCha20Poly1305"),
    "cryptography.hazmat.primitives.hashes": (_CRYPTO, "SHA256"),
    "cryptography.hazmat.primitives.kdf.hkdf": (_CRYPTO, "HKDF, HKDFExpand"),
    "defusedxml": (_XML, "DefusedXmlException"),
    "defusedxml.ElementTree": (_XML, "iterparse"),
}
"""What the seal's reader and the readers of reports import of other packages, and which module of ours has it."""

_ENTRY = "packager.export.scorer"
_DATE = (1980, 1, 1, 0, 0, 0)


def format_scorer(settings: Mapping[str, object], extra: Mapping[str, bytes] | None = None) -> bytes:
    """Return a zip that `python3 -I` runs."""
    files = {**_modules(), STANDARD_MEMBER: _standard_modules(), **(extra or {})}
    files["__main__.py"] = f"from {_ENTRY} import main\n\nraise SystemExit(main({dict(settings)!r}))\n".encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in sorted(files.items()):
            member = zipfile.ZipInfo(name, _DATE)
            member.compress_type = zipfile.ZIP_DEFLATED
            member.create_system = 3
            member.external_attr = 0o100644 << 16
            archive.writestr(member, data, compresslevel=9)
    return out.getvalue()


@cache
def _modules() -> dict[str, bytes]:
    """Return the source of every module that the scorer imports, and of the packages that they are in."""
    found: dict[str, bytes] = {}
    waiting = [_ENTRY, _CRYPTO, _XML, *(f"packager.evaluate.readers.{module}" for module in set(READERS.values()))]
    while waiting:
        name = waiting.pop()
        path = _file_of(name)
        if path is None or (inner := path.relative_to(_PACKAGE.parent).as_posix()) in found:
            continue
        found[inner] = path.read_bytes()
        waiting += _imports(ast.parse(found[inner]))
        waiting.append(name.rpartition(".")[0])
    return found | _stand_ins()


@cache
def _standard_modules() -> bytes:
    """Return a line for each module of Python's own library that ours import, be it in a function."""
    trees = [ast.parse(data) for name, data in _modules().items() if name.endswith(".py")]
    names = {name for tree in trees for name in _imports(tree) if name.partition(".")[0] in sys.stdlib_module_names}
    return "".join(f"{name}\n" for name in sorted(filter(_is_module, names))).encode()


def _is_module(name: str) -> bool:
    parent, _, child = name.rpartition(".")
    if parent and not hasattr(importlib.import_module(parent), "__path__"):
        return False  # `from os import PathLike`
    return bool(child) and importlib.util.find_spec(name) is not None


def _file_of(name: str) -> Path | None:
    """Return the file of one of our modules."""
    parts = name.split(".")
    if parts[0] != "packager":
        return None
    place = _PACKAGE.joinpath(*parts[1:])
    return next((path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file()), None)


def _imports(node: ast.AST) -> Iterator[str]:
    """Yield what a module imports when it runs, also inside functions."""
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield node.module or ""
        yield from (f"{node.module}.{alias.name}" for alias in node.names)
    for child in ast.iter_child_nodes(node):
        yield from _imports(child)


def _stand_ins() -> dict[str, bytes]:
    """Return the modules that stand in for other packages: each takes its names from one of ours."""
    found: dict[str, bytes] = {}
    for module, (ours, names) in STAND_INS.items():
        parts = module.split(".")
        for depth in range(1, len(parts)):
            found.setdefault("/".join((*parts[:depth], "__init__.py")), b"")
        is_package = any(other.startswith(f"{module}.") for other in STAND_INS)
        path = "/".join((*parts, "__init__.py")) if is_package else "/".join(parts) + ".py"
        found[path] = f"from {ours} import {names}\n".encode()
    return found
