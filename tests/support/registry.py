"""An OCI registry in this process, over real HTTP: everything in memory, and it can misbehave at the n-th request."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import threading
import time
import uuid
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote, urlsplit

from tests.support.http_server import LoopbackServer

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Mapping

MEDIA_INDEX = "application/vnd.oci.image.index.v1+json"
FAULTS = ("truncate", "stall", "swap", "redirect", "drop", "lost", "401", "404", "416", "429", "500")
_CUTS = frozenset({"truncate", "stall", "kill"})
_ROUTE = re.compile(r"/v2/(?P<repo>[a-z0-9._/-]+?)/(?P<kind>blobs/uploads|blobs|manifests|tags|referrers)/(?P<rest>.*)")


@dataclass
class Options:
    """How the registry behaves when it behaves."""

    referrers_api: bool = True
    says_subject: bool = True
    authentication: str = ""  # "", "basic" or "bearer"
    users: Mapping[str, str] = field(default_factory=dict)
    identity_tokens: Mapping[str, str] = field(default_factory=dict)
    token_life_s: int = 300
    realm: str = ""
    ignores_range: bool = False
    page: int = 1000
    storage_host: str = ""  # blobs are redirected there
    stall_s: float = 1.0
    extra_headers: Mapping[str, str] = field(default_factory=dict)
    upload_host: str = ""  # uploads go there
    redirect_host: str = "127.0.0.2:9"


@dataclass
class Fault:
    """What goes wrong, and at which request (1 is the first); `met` says whether it came to that."""

    kind: str
    at: int
    met: bool = False
    action: Callable[[], object] = lambda: None  # what "kill" does in the middle of a body


@dataclass(frozen=True)
class Seen:
    """One request as it arrived."""

    method: str
    path: str
    headers: Mapping[str, str]


class MemoryRegistry(LoopbackServer):
    """A registry on loopback; a context manager."""

    def __init__(self, options: Options | None = None, tls: ssl.SSLContext | None = None) -> None:
        self.options = options or Options()
        self.fault: Fault | None = None
        self.blobs: dict[str, dict[str, bytes]] = {}
        self.manifests: dict[str, dict[str, tuple[str, bytes]]] = {}
        self.tags: dict[str, dict[str, str]] = {}
        self.uploads: dict[str, bytearray] = {}
        self.tokens: dict[str, tuple[set[str], float]] = {}
        self.seen: list[Seen] = []
        self.lock = threading.RLock()
        super().__init__(type("Handler", (_Handler,), {"registry": self}), tls=tls)

    def put_blob(self, repo: str, data: bytes) -> str:
        digest = digest_of(data)
        self.blobs.setdefault(repo, {})[digest] = data
        return digest

    def put_manifest(self, repo: str, data: bytes, media_type: str, tag: str | None = None) -> str:
        digest = digest_of(data)
        self.manifests.setdefault(repo, {})[digest] = (media_type, data)
        if tag is not None:
            self.tags.setdefault(repo, {})[tag] = digest
        return digest

    def requests(self, method: str, part: str = "") -> list[str]:
        return [seen.path for seen in self.seen if seen.method == method and part in seen.path]

    def count(self, seen: Seen) -> Fault | None:
        """Note a request and return the fault that it is to meet."""
        with self.lock:
            self.seen.append(seen)
            fault = self.fault
            if fault is None or fault.met or len(self.seen) != fault.at:
                return None
            fault.met = True
            return fault

    def begin(self, fault: Fault | None) -> None:
        """Count requests from now on, with this fault."""
        with self.lock:
            self.seen.clear()
            self.fault = fault

    def check(self) -> None:
        """Every blob and manifest is what its digest says."""
        for held in self.blobs.values():
            assert all(digest_of(data) == digest for digest, data in held.items())
        for kept in self.manifests.values():
            assert all(digest_of(data) == digest for digest, (_, data) in kept.items())


class _Handler(BaseHTTPRequestHandler):
    registry: MemoryRegistry
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True
    fault: Fault | None = None

    def log_message(self, *_: object) -> None:
        pass

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def do_GET(self) -> None:
        self._serve()

    def do_HEAD(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def do_PUT(self) -> None:
        self._serve()

    def do_PATCH(self) -> None:
        self._serve()

    def _serve(self) -> None:
        self.fault = self.registry.count(Seen(self.command, self.path, dict(self.headers.items())))
        kind = self.fault.kind if self.fault else ""
        if kind == "drop":
            self.close_connection = True
            return
        self.body = self._read_body(kind)
        if self.body is None:
            return
        if kind == "redirect":
            self._answer(
                307, headers={"Location": f"http://127.0.0.2:{self.registry.host.partition(':')[2]}{self.path}"}
            )
        elif kind.isdigit():
            headers = {"429": {"Retry-After": "0"}, "401": {"WWW-Authenticate": 'Basic realm="r"'}}.get(kind, {})
            self._error(int(kind), "DENIED" if kind == "401" else "UNKNOWN", headers)
        elif self.path.startswith("/token"):
            self._token()
        elif self._allowed():
            self._route()

    def _read_body(self, kind: str) -> bytes | None:
        """Return the request's body; with a fault it is cut (None: the connection is gone) or changed."""
        size = int(self.headers.get("Content-Length") or 0)
        if kind in _CUTS and size > 1:
            self._keep_part(self.rfile.read(size // 2))
            self._cut(kind)
            return None
        data = self.rfile.read(size)
        return bytes([data[0] ^ 1]) + data[1:] if kind == "swap" and data else data

    def _keep_part(self, part: bytes) -> None:
        match = _ROUTE.fullmatch(urlsplit(self.path).path)
        if self.command == "PATCH" and match and match["rest"] in self.registry.uploads:
            self.registry.uploads[match["rest"]] += part

    def _answer(self, status: int, data: bytes = b"", headers: Mapping[str, str] | None = None) -> None:
        kind = self.fault.kind if self.fault else ""
        self.send_response_only(status)
        for name, value in {**self.registry.options.extra_headers, **(headers or {})}.items():
            self.send_header(name, value)
        if "Content-Length" not in (headers or {}):
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if kind == "lost":
            self.close_connection = True
            self.wfile = io.BytesIO()
            return
        if self.command == "HEAD" or status == 204:
            data = b""
        if kind == "swap" and data:
            data = data[:-1] + bytes([data[-1] ^ 1])
        if kind in _CUTS:
            self.wfile.write(data[: len(data) // 2])
            self.wfile.flush()
            self._cut(kind)
            return
        self.wfile.write(data)

    def _cut(self, kind: str) -> None:
        if kind == "stall":
            time.sleep(self.registry.options.stall_s)
        if kind == "kill" and self.fault is not None:
            self.fault.action()
        self.close_connection = True

    def _error(self, status: int, code: str, headers: Mapping[str, str] | None = None) -> None:
        data = json.dumps({"errors": [{"code": code, "message": code.lower().replace("_", " ")}]}).encode()
        self._answer(status, data, {"Content-Type": "application/json", **(headers or {})})

    # -- who may --

    def _allowed(self) -> bool:
        options = self.registry.options
        given = self.headers.get("Authorization", "")
        if not options.authentication:
            return True
        if options.authentication == "basic":
            if self._user(given) is not None:
                return True
            self._error(401, "UNAUTHORIZED", {"WWW-Authenticate": 'Basic realm="a, b"'})
            return False
        scopes, until = self.registry.tokens.get(given.removeprefix("Bearer "), (set(), 0.0))
        match = _ROUTE.fullmatch(urlsplit(self.path).path)
        needed = "pull" if self.command in {"GET", "HEAD"} else "push"
        if match and f"{match['repo']}:{needed}" in scopes and until > time.monotonic():
            return True
        realm = options.realm or f"{self.registry.url}/token"
        scope = f"repository:{match['repo']}:pull,push" if match else ""
        self._error(401, "UNAUTHORIZED", {"WWW-Authenticate": f'Bearer realm="{realm}",service="here",scope="{scope}"'})
        return False

    def _user(self, given: str) -> str | None:
        if not given.startswith("Basic "):
            return None
        user, _, password = base64.b64decode(given[6:]).decode().partition(":")
        return user if self.registry.options.users.get(user) == password else None

    def _token(self) -> None:
        options = self.registry.options
        if self.command == "POST":
            form = parse_qs((self.body or b"").decode())
            scopes = form.get("scope", [""])[0].split(" ")
            known = form.get("refresh_token", [""])[0] in options.identity_tokens
        else:
            scopes = parse_qs(urlsplit(self.path).query).get("scope", [])
            known = self._user(self.headers.get("Authorization", "")) is not None or not options.users
        if not known:
            self._error(401, "UNAUTHORIZED")
            return
        allowed: set[str] = set()
        for scope in scopes:
            _, repo, actions = scope.split(":")
            allowed |= {f"{repo}:{action}" for action in actions.split(",")}
        text = uuid.uuid4().hex
        self.registry.tokens[text] = (allowed, time.monotonic() + options.token_life_s)
        data = json.dumps({"token": text, "expires_in": options.token_life_s}).encode()
        self._answer(200, data, {"Content-Type": "application/json"})

    # -- what there is --

    def _route(self) -> None:
        parts = urlsplit(self.path)
        match = _ROUTE.fullmatch(parts.path)
        if match is None:
            self._answer(200 if parts.path == "/v2/" else 404)
            return
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        name = f"_{self.command.lower()}_{match['kind'].replace('/', '_')}"
        method = getattr(self, name, None) or getattr(self, name.replace("_head_", "_get_"), None)
        if method is None:
            self._error(405, "UNSUPPORTED")
            return
        with self.registry.lock:
            answer = method(match["repo"], match["rest"], query)
        status, data, headers = answer
        if status >= 400:
            self._error(status, data)
        else:
            self._answer(status, data, headers)

    def _get_blobs(self, repo: str, digest: str, _query: Mapping[str, str]) -> tuple[int, Any, dict[str, str]]:
        data = self.registry.blobs.get(repo, {}).get(digest)
        if data is None:
            return 404, "BLOB_UNKNOWN", {}
        options = self.registry.options
        if options.storage_host and self.command == "GET":
            return 307, b"", {"Location": f"http://{options.storage_host}{self.path}?signature=secret"}
        headers = {"Docker-Content-Digest": digest, "Content-Type": "application/octet-stream"}
        match = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if match is None or options.ignores_range:
            return 200, data, headers | {"Content-Length": str(len(data))}
        start = int(match[1])
        if start >= len(data):
            return 416, "UNKNOWN", {}
        return 206, data[start:], headers | {"Content-Range": f"bytes {start}-{len(data) - 1}/{len(data)}"}

    def _post_blobs_uploads(self, repo: str, _rest: str, query: Mapping[str, str]) -> tuple[int, Any, dict[str, str]]:
        source, digest = query.get("from", ""), query.get("mount", "")
        data = self.registry.blobs.get(source, {}).get(digest)
        if data is not None:
            self.registry.put_blob(repo, data)
            return 201, b"", {"Location": f"/v2/{repo}/blobs/{digest}", "Docker-Content-Digest": digest}
        session = uuid.uuid4().hex
        self.registry.uploads[session] = bytearray()
        return 202, b"", self._session(repo, session)

    def _session(self, repo: str, session: str) -> dict[str, str]:
        size = len(self.registry.uploads[session])
        location = f"/v2/{repo}/blobs/uploads/{session}?state={quote('a=b')}"
        if self.registry.options.upload_host:
            location = f"http://{self.registry.options.upload_host}{location}"
        return {"Location": location, "Range": f"0-{max(0, size - 1)}", "Docker-Upload-UUID": session}

    def _get_blobs_uploads(self, repo: str, session: str, _query: Mapping[str, str]) -> tuple[int, Any, dict[str, str]]:
        if session not in self.registry.uploads:
            return 404, "BLOB_UPLOAD_UNKNOWN", {}
        return 204, b"", self._session(repo, session)

    def _patch_blobs_uploads(
        self, repo: str, session: str, query: Mapping[str, str]
    ) -> tuple[int, Any, dict[str, str]]:
        held = self.registry.uploads.get(session)
        if held is None or query.get("state") != "a=b":
            return 404, "BLOB_UPLOAD_UNKNOWN", {}
        match = re.fullmatch(r"(\d+)-(\d+)", self.headers.get("Content-Range", ""))
        if match is not None and int(match[1]) != len(held):
            return 416, "BLOB_UPLOAD_INVALID", {}
        held += self.body or b""
        return 202, b"", self._session(repo, session)

    def _put_blobs_uploads(self, repo: str, session: str, query: Mapping[str, str]) -> tuple[int, Any, dict[str, str]]:
        held = self.registry.uploads.pop(session, None)
        if held is None or query.get("state") != "a=b":
            return 404, "BLOB_UPLOAD_UNKNOWN", {}
        data = bytes(held) + (self.body or b"")
        if digest_of(data) != query.get("digest"):
            return 400, "DIGEST_INVALID", {}
        digest = self.registry.put_blob(repo, data)
        return 201, b"", {"Location": f"/v2/{repo}/blobs/{digest}", "Docker-Content-Digest": digest}

    def _get_manifests(self, repo: str, name: str, _query: Mapping[str, str]) -> tuple[int, Any, dict[str, str]]:
        digest = self.registry.tags.get(repo, {}).get(name, name)
        found = self.registry.manifests.get(repo, {}).get(digest)
        if found is None:
            return 404, "MANIFEST_UNKNOWN", {}
        headers = {"Content-Type": found[0], "Docker-Content-Digest": digest, "Content-Length": str(len(found[1]))}
        return 200, found[1], headers

    def _put_manifests(self, repo: str, name: str, _query: Mapping[str, str]) -> tuple[int, Any, dict[str, str]]:
        data = self.body or b""
        try:
            fields = json.loads(data)
        except ValueError:
            return 400, "MANIFEST_INVALID", {}
        held, kept = self.registry.blobs.get(repo, {}), self.registry.manifests.get(repo, {})
        blobs = [*fields.get("layers", []), *([fields["config"]] if "config" in fields else [])]
        if any(blob["digest"] not in held for blob in blobs):
            return 400, "MANIFEST_BLOB_UNKNOWN", {}
        if any(child["digest"] not in kept for child in fields.get("manifests", [])):
            return 400, "MANIFEST_UNKNOWN", {}
        if ":" in name and name != digest_of(data):
            return 400, "DIGEST_INVALID", {}
        digest = self.registry.put_manifest(
            repo, data, self.headers.get("Content-Type", ""), None if ":" in name else name
        )
        headers = {"Docker-Content-Digest": digest, "Location": f"/v2/{repo}/manifests/{digest}"}
        if self.registry.options.says_subject and "subject" in fields:
            headers["OCI-Subject"] = fields["subject"]["digest"]
        return 201, b"", headers

    def _get_tags(self, repo: str, _rest: str, query: Mapping[str, str]) -> tuple[int, Any, dict[str, str]]:
        if repo not in self.registry.manifests:
            return 404, "NAME_UNKNOWN", {}
        tags = sorted(self.registry.tags.get(repo, {}))
        after = [tag for tag in tags if tag > query.get("last", "")]
        page = after[: self.registry.options.page]
        headers = {"Content-Type": "application/json"}
        if len(page) < len(after):
            headers["Link"] = f'</v2/{repo}/tags/list?last={page[-1]}&n=1>; rel="next"'
        return 200, json.dumps({"name": repo, "tags": page}).encode(), headers

    def _get_referrers(self, repo: str, digest: str, query: Mapping[str, str]) -> tuple[int, Any, dict[str, str]]:
        if not self.registry.options.referrers_api:
            return 404, "UNKNOWN", {}
        entries = []
        for own, (media_type, data) in self.registry.manifests.get(repo, {}).items():
            fields = json.loads(data)
            if (fields.get("subject") or {}).get("digest") == digest:
                kind = fields.get("artifactType") or fields["config"]["mediaType"]
                entries.append({"mediaType": media_type, "digest": own, "size": len(data), "artifactType": kind})
        start, page = int(query.get("from", "0")), self.registry.options.page
        headers = {"Content-Type": MEDIA_INDEX}
        if start + page < len(entries):
            headers["Link"] = f'</v2/{repo}/referrers/{digest}?from={start + page}>; rel="next"'
        value = {"schemaVersion": 2, "mediaType": MEDIA_INDEX, "manifests": entries[start : start + page]}
        return 200, json.dumps(value).encode(), headers


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"
