"""Who we are to a registry: docker's config.json and its credential helpers, and podman's auth.json."""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packager.base.canonical import LIMIT_BYTES, parse_json
from packager.base.errors import InputError, WorldError
from packager.base.files import is_there, read_file
from packager.base.processes import Surroundings, run

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_HELPER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_HELPER_TIMEOUT_S = 60.0
_NOT_FOUND = b"credentials not found"
_IDENTITY_USER = "<token>"
"""The user name under which a helper hands out an identity token instead of a password (docker-credential-helpers)."""


@dataclass(frozen=True)
class Credentials:
    """What a registry may be shown: a password, an identity token for its token service, or a ready registry token."""

    username: str = ""
    password: str = field(default="", repr=False)
    identity_token: str = field(default="", repr=False)
    registry_token: str = field(default="", repr=False)


def find_credentials(host: str, environ: Mapping[str, str]) -> Credentials | None:
    """Return the credentials that docker's configuration names for `host` (with its port), else podman's, or None.

    A helper for this host (credHelpers) comes before the helper for all (credsStore), and that before `auths`. Podman's
    file (containers-auth.json(5)) has the same form; its entries for single repositories are not looked at.
    """
    for path in _config_paths(environ):
        found = _find_in(path, host, environ) if is_there(path) else None
        if found is not None:
            return found
    return None


def _find_in(path: Path, host: str, environ: Mapping[str, str]) -> Credentials | None:
    data = read_file(path, limit=LIMIT_BYTES)
    config = _expect_object(parse_json(data, where=str(path)), where=str(path))
    helpers = _expect_object(config.get("credHelpers") or {}, where=f"{path}: credHelpers")
    helper = helpers.get(host) or config.get("credsStore")
    found = _ask_helper(helper, host, environ=environ, where=str(path)) if helper else None
    return found or _read_auths(config, host, where=str(path))


def _config_paths(environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield the files to look into: docker's, then podman's."""
    if folder := environ.get("DOCKER_CONFIG"):
        yield Path(folder) / "config.json"
    elif home := environ.get("HOME"):
        yield Path(home) / ".docker" / "config.json"
    if named := environ.get("REGISTRY_AUTH_FILE"):
        yield Path(named)
    elif running := environ.get("XDG_RUNTIME_DIR"):
        yield Path(running) / "containers" / "auth.json"


def _read_auths(config: Mapping[str, Any], host: str, *, where: str) -> Credentials | None:
    auths = _expect_object(config.get("auths") or {}, where=f"{where}: auths")
    key = host if host in auths else next((key for key in sorted(auths) if _host_of_key(key) == host), None)
    if key is None:
        return None
    place = f"{where}: auths[{key!r}]"
    entry = _expect_object(auths[key], where=place)
    texts = {name: _text(entry, name, where=place) for name in ("username", "password", "identitytoken")}
    if auth := _text(entry, "auth", where=place):
        texts["username"], texts["password"] = _decode_auth(auth, where=place)
    found = Credentials(
        username=texts["username"],
        password=texts["password"],
        identity_token=texts["identitytoken"],
        registry_token=_text(entry, "registrytoken", where=place),
    )
    return None if found == Credentials() else found


def _host_of_key(key: str) -> str:
    """Return the host of a key that old versions of docker wrote as an URL, such as `https://host/v1/`.

    A key with a path alone is podman's, for some repositories of the host only.
    """
    bare = re.sub(r"^https?://", "", key)
    return bare.split("/", 1)[0] if bare != key else key


def _decode_auth(auth: str, *, where: str) -> tuple[str, str]:
    try:
        user, colon, password = base64.b64decode(auth, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        colon = ""
    if not colon:
        hint = "run `docker login` again"
        raise InputError("expected base64 of user:password in auth, found something else", where=where, hint=hint)
    return user, password.strip("\0")


def _ask_helper(name: object, host: str, *, environ: Mapping[str, str], where: str) -> Credentials | None:
    if not isinstance(name, str) or _HELPER_NAME.fullmatch(name) is None:
        hint = "write the part of the program's name that follows `docker-credential-`"
        raise InputError(f"not the name of a credential helper: {str(name)[:80]!r}", where=where, hint=hint)
    program = f"docker-credential-{name}"
    around = Surroundings(env=environ, stdin=host.encode(), timeout_s=_HELPER_TIMEOUT_S)
    done = run([program, "get"], around)
    if done.exit_code != 0 and _NOT_FOUND in done.stdout:
        return None
    if done.exit_code != 0:
        said = (done.stdout or done.stderr)[:200].decode(errors="replace").strip()
        raise WorldError(f"{program} ended with exit code {done.exit_code}: {said}", where=host)
    try:
        answer = _expect_object(parse_json(done.stdout, where=program), where=program)
    except InputError as error:
        reason = f"expected a JSON object with Username and Secret from {program}, found something else"
        raise WorldError(reason, where=host) from error
    username, secret = _text(answer, "Username", where=program), _text(answer, "Secret", where=program)
    if username == _IDENTITY_USER:
        return Credentials(identity_token=secret)
    return Credentials(username=username, password=secret)


def _text(entry: Mapping[str, Any], name: str, *, where: str) -> str:
    value = entry.get(name) or ""
    if not isinstance(value, str):
        raise InputError(f"expected text, found {type(value).__name__}", where=f"{where}.{name}")
    return value


def _expect_object(value: object, *, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"expected a JSON object, found {type(value).__name__}", where=where)
    return value
