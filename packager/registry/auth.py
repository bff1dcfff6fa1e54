"""How a registry lets us in: Basic, or Bearer tokens from its token service, per scope and while they last."""

from __future__ import annotations

import base64
import functools
import re
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from packager.base.canonical import parse_json
from packager.base.errors import InputError, WorldError
from packager.registry.challenges import parse_challenges
from packager.registry.http import Request
from packager.registry.origins import Origin, origin_of, token_url

if TYPE_CHECKING:
    from collections.abc import Callable

    from packager.registry.challenges import Challenge
    from packager.registry.credentials import Credentials
    from packager.registry.http import HttpDoor, Response

_CLIENT_ID = "wideswe-pack"
_TOKEN = re.compile(r"[\x21-\x7e]{1,65536}")
_ANSWER_LIMIT = 1 << 20
_DEFAULT_LIFE_S = 60
"""The token specification's default for `expires_in`; docker treats shorter lives as this long, too."""
_LONGEST_LIFE_S = 24 * 3600
_MARGIN_S = 5.0

Scopes = frozenset[str]
"""What a request may do, such as `repository:group/name:pull,push`; more than one for a mount."""


@dataclass(frozen=True)
class _Token:
    text: str
    until: float


class Authorizer:
    """Knows what to write into Authorization for one registry; one token is fetched at a time. Thread-safe."""

    def __init__(self, door: HttpDoor, home: Origin, find: Callable[[], Credentials | None]) -> None:
        self._door = door
        self._home = home
        self._find = functools.cache(find)
        self._lock = threading.Lock()
        self._basic: str | None = None
        self._bearer: Challenge | None = None
        self._tokens: dict[Scopes, _Token] = {}
        self._where = home.url.partition("://")[2]

    def authorization(self, scopes: Scopes) -> str | None:
        """Return the header for a request, or None as long as the registry has not asked for one."""
        with self._lock:
            if self._bearer is not None:
                return f"Bearer {self._token(self._bearer, scopes)}"
            return self._basic

    def learn(self, response: Response, scopes: Scopes, *, used: str | None) -> bool:
        """Take in a 401 and return whether another try can go better; `used` is the header of the refused request."""
        challenges = parse_challenges(response.headers.get("WWW-Authenticate", ""), where=self._where)
        with self._lock:
            token = self._tokens.get(scopes)
            if token is not None and used == f"Bearer {token.text}":
                del self._tokens[scopes]
            if bearer := next((found for found in challenges if found.scheme == "bearer"), None):
                self._take_bearer(bearer)
                return True
            credentials = self._find()
            if any(found.scheme == "basic" for found in challenges) and credentials and credentials.username:
                self._basic = _basic(credentials)
                return used != self._basic
        return False

    def _take_bearer(self, challenge: Challenge) -> None:
        realm = challenge.parameters.get("realm", "")
        origin = origin_of(token_url(realm, home=self._home, where=self._where), where=self._where)
        known = self._bearer
        if known is not None and origin != origin_of(known.parameters["realm"], where=self._where):
            before = known.parameters["realm"]
            raise WorldError(f"the token service changed from {before[:200]} to {origin.url}", where=self._where)
        self._bearer = challenge

    def _token(self, challenge: Challenge, scopes: Scopes) -> str:
        credentials = self._find()
        if credentials is not None and credentials.registry_token:
            return _checked(credentials.registry_token, where=self._where)
        now = self._door.pacing.now()
        known = self._tokens.get(scopes)
        if known is None or known.until <= now:
            text, life_s = self._fetch(challenge, scopes)
            known = self._tokens[scopes] = _Token(text, now + life_s - _MARGIN_S)
        return known.text

    def _fetch(self, challenge: Challenge, scopes: Scopes) -> tuple[str, int]:
        for attempt in range(self._door.pacing.attempts):
            try:
                return self._fetch_once(challenge, scopes)
            except WorldError as error:
                if not error.retryable or attempt + 1 == self._door.pacing.attempts:
                    raise
            self._door.pacing.wait(attempt)
        raise AssertionError("unreachable")

    def _fetch_once(self, challenge: Challenge, scopes: Scopes) -> tuple[str, int]:
        request = self._token_request(challenge, sorted(scopes))
        with self._door.send(request) as response:
            if response.status != 200:  # noqa: PLR2004 - an HTTP status
                raise self._refusal(response)
            data = response.body(_ANSWER_LIMIT)
        try:
            answer = parse_json(data, where=request.where)
        except InputError as error:
            raise WorldError("the token service's answer is not JSON", where=request.where) from error
        fields = answer if isinstance(answer, dict) else {}
        token = fields.get("access_token") or fields.get("token") or ""
        said = fields.get("expires_in")
        life_s = said if isinstance(said, int) else _DEFAULT_LIFE_S
        return _checked(token, where=request.where), min(max(life_s, _DEFAULT_LIFE_S), _LONGEST_LIFE_S)

    def _token_request(self, challenge: Challenge, scopes: list[str]) -> Request:
        realm = token_url(challenge.parameters["realm"], home=self._home, where=self._where)
        where = f"{self._where}: token service {origin_of(realm, where=self._where).url}"
        service = challenge.parameters.get("service", "")
        credentials = self._find()
        shown = credentials is not None and bool(credentials.identity_token or credentials.username)
        if shown:
            self._refuse_clear_text(realm, where=where)
        if credentials is not None and credentials.identity_token:
            form = {"grant_type": "refresh_token", "service": service, "client_id": _CLIENT_ID}
            form |= {"scope": " ".join(scopes), "refresh_token": credentials.identity_token}
            headers = {"Content-Type": "application/x-www-form-urlencoded"}
            return Request("POST", realm, where, headers, urlencode(form).encode())
        pairs = [("service", service)] if service else []
        pairs += [("scope", scope) for scope in scopes]
        query = urlencode(pairs, quote_via=quote, safe=":/,")
        headers = {"Authorization": _basic(credentials)} if shown and credentials is not None else {}
        return Request("GET", f"{realm}{'&' if '?' in realm else '?'}{query}", where, headers)

    def _refuse_clear_text(self, realm: str, *, where: str) -> None:
        target = origin_of(realm, where=where)
        if target.scheme == "https" or (target.is_loopback and self._home.is_loopback):
            return
        hint = "let the registry name an https token service, or log out to go on without credentials"
        raise WorldError("refused to send credentials over plain http", where=where, hint=hint)

    def _refusal(self, response: Response) -> WorldError:
        place = f"{self._where}: token service {origin_of(response.url, where=self._where).url}"
        retryable = response.status in {408, 429, 500, 502, 503, 504}
        hint = None if retryable else f"run `docker login {self._where}`"
        shown = "our credentials" if self._find() else "us without credentials"
        return WorldError(
            f"expected a token (status 200), found status {response.status} for {shown}",
            where=place,
            hint=hint,
            retryable=retryable,
        )


def _basic(credentials: Credentials) -> str:
    pair = f"{credentials.username}:{credentials.password}"
    return f"Basic {base64.b64encode(pair.encode()).decode()}"


def _checked(token: object, *, where: str) -> str:
    if not isinstance(token, str) or _TOKEN.fullmatch(token) is None:
        raise WorldError("expected a token of printable ASCII, found something else", where=where)
    return token
