"""A question to one registry and its answer: authorisation, redirects, patience, and the text of refusals."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from packager.base.errors import WorldError
from packager.registry.http import Request
from packager.registry.origins import next_url, origin_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from packager.registry.auth import Authorizer, Scopes
    from packager.registry.http import Body, HttpDoor, Response
    from packager.registry.origins import Origin

_REDIRECTS = 5
_LOGINS = 2
_REFUSAL_LIMIT = 8192
_PATIENCE = frozenset({408, 429, 500, 502, 503, 504})
_MOVED = frozenset({301, 302, 303, 307, 308})


class StatusError(WorldError):
    """A registry answered with another status than we need; callers look at `status` and the registry's `code`."""

    def __init__(self, response: Response, wanted: Collection[int], *, where: str) -> None:
        self.status = response.status
        self.retry_after_s = response.retry_after_s()
        self.code, said = _read_refusal(response)
        expected = " or ".join(str(status) for status in sorted(wanted))
        reason = f"expected status {expected}, found {self.status}{said}"
        super().__init__(reason, where=where, hint=_hint(self.status), retryable=self.status in _PATIENCE)


@dataclass(frozen=True)
class Call:
    """One question: `scopes` are what a token must allow; `idempotent` ones are asked again when that may help."""

    method: str
    url: str
    where: str
    scopes: Scopes
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | Body = b""
    idempotent: bool = True


class Exchange:
    """Asks one registry; thread-safe."""

    def __init__(self, door: HttpDoor, home: Origin, authorizer: Authorizer) -> None:
        self._door = door
        self._authorizer = authorizer
        self.home = home
        self.pacing = door.pacing

    def ask(self, call: Call, *, wanted: Collection[int]) -> Response:
        """Return an answer whose status is wanted, to be closed by the caller; else StatusError or WorldError."""
        attempts = self.pacing.attempts if call.idempotent else 1
        for attempt in range(attempts):
            try:
                return self._ask_once(call, wanted)
            except WorldError as error:
                if not error.retryable or attempt + 1 == attempts:
                    raise
                asked_s = error.retry_after_s if isinstance(error, StatusError) else 0.0
            self.pacing.wait(attempt, asked_s)
        raise AssertionError("unreachable")

    def _ask_once(self, call: Call, wanted: Collection[int]) -> Response:
        response = self._follow(call)
        if response.status in wanted:
            return response
        with response:
            raise StatusError(response, wanted, where=call.where)

    def _follow(self, call: Call) -> Response:
        for _ in range(_REDIRECTS + 1):
            response = self._authorized(call)
            kept = response.status in {307, 308} or call.method in {"GET", "HEAD"}
            if response.status not in _MOVED or not kept or "Location" not in response.headers:
                return response
            with response:
                url = next_url(response.headers["Location"], current=call.url, home=self.home, where=call.where)
                call = replace(call, url=url)
        raise WorldError(f"expected at most {_REDIRECTS} redirects, found more", where=call.where)

    def _authorized(self, call: Call) -> Response:
        """Send a call, with credentials only to the registry's own origin, and log in when it asks us to."""
        at_home = origin_of(call.url, where=call.where) == self.home
        for login in range(_LOGINS + 1):
            used = self._authorizer.authorization(call.scopes) if at_home else None
            headers = {**call.headers, "Authorization": used} if used else call.headers
            response = self._door.send(Request(call.method, call.url, call.where, headers, call.body))
            if response.status != 401 or not at_home or login == _LOGINS:  # noqa: PLR2004 - an HTTP status
                break
            try:
                again = self._authorizer.learn(response, call.scopes, used=used)
            except BaseException:
                response.close()
                raise
            if not again:
                break
            response.close()
        return response


def _read_refusal(response: Response) -> tuple[str, str]:
    """Return the first error's code, and code and message in brackets (distribution-spec, Error Codes)."""
    try:
        errors = json.loads(response.body(_REFUSAL_LIMIT))["errors"]
        code, message = str(errors[0]["code"]), str(errors[0].get("message", ""))
    except (WorldError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return "", ""
    text = "".join(letter if letter.isprintable() else "?" for letter in f"{code}: {message}"[:200])
    return code[:80], f" ({text})"


def _hint(status: int) -> str | None:
    hints = {
        401: "log in with `docker login`; the account must be allowed to do this",
        403: "the account that is logged in must be allowed to do this",
        404: "check the name; registries also say so of repositories that the account may not see",
        405: "the registry does not offer this",
        429: "the registry limits how often it is asked; wait, or log in",
    }
    return hints.get(status, "the registry is in trouble; try again later" if status in _PATIENCE else None)
