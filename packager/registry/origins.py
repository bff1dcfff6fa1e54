"""Which URLs a registry may send us to: its answers are not trusted with our credentials or our network."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import urljoin, urlsplit

from packager.base.errors import InputError, WorldError

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)(?::([0-9]{1,5}))?")
_URL = re.compile(r"[\x21-\x5b\x5d-\x7e]+")
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9a-fA-F]*")
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Origin:
    """Scheme, host and port: credentials never cross from one to another."""

    scheme: str
    host: str
    port: int

    @property
    def url(self) -> str:
        """The origin as the start of an URL, without a final slash."""
        port = "" if self.port == _PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{self.host}{port}"

    @property
    def address(self) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
        """The host as an IP address, if it is a literal one."""
        try:
            found = ipaddress.ip_address(self.host.strip("[]"))
        except ValueError:
            return None
        return getattr(found, "ipv4_mapped", None) or found

    @property
    def is_loopback(self) -> bool:
        """Whether the host is a literal loopback address; a name such as localhost is whatever a resolver says."""
        return self.address is not None and self.address.is_loopback


def registry_origin(host: str, *, insecure: bool | None) -> Origin:
    """Return where a registry is reached: TLS, or plain http if asked for (None: only on literal loopback)."""
    match = _HOST.fullmatch(host)
    if match is None or int(match[2] or 443) not in range(1, 1 << 16) or _is_odd_number(match[1]):
        raise InputError(f"expected host or host:port, found {host[:120]!r}", where="registry")
    name = match[1].lower()
    loopback = Origin("http", name, 80).is_loopback
    scheme = "http" if insecure or (insecure is None and (loopback or name == "localhost")) else "https"
    if scheme == "http" and name == "localhost":
        name = "127.0.0.1"  # plain http stays on this machine whatever a resolver says of the name
    return Origin(scheme, name, int(match[2] or _PORTS[scheme]))


def origin_of(url: str, *, where: str) -> Origin:
    """Return the origin of an absolute URL; WorldError if it is not a plain http(s) one."""
    refusal = WorldError(f"the registry names an URL that is not acceptable: {without_query(url)[:200]!r}", where=where)
    if _URL.fullmatch(url) is None:
        raise refusal
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise refusal from error
    host = parts.netloc.rpartition("@")[2]
    if parts.scheme not in _PORTS or "@" in parts.netloc or _HOST.fullmatch(host) is None:
        raise refusal
    name = f"[{parts.hostname}]" if host.startswith("[") else parts.hostname or ""
    if _is_odd_number(name):
        raise refusal
    return Origin(parts.scheme, name, port or _PORTS[parts.scheme])


def join_url(current: str, location: str, *, where: str) -> str:
    """Return an absolute or relative location as an URL; WorldError if it is none, such as `//[`."""
    try:
        return urljoin(current, location)
    except ValueError as error:
        reason = f"the registry names an URL that is not acceptable: {without_query(location)[:200]!r}"
        raise WorldError(reason, where=where) from error


def next_url(location: str, *, current: str, home: Origin, where: str) -> str:
    """Return where a redirect or an upload location leads, if a registry at `home` may send us there.

    Refused are the way from https to http, and loopback or link-local addresses unless the registry is there.
    """
    url = join_url(current, location, where=where).partition("#")[0]
    target = origin_of(url, where=where)
    if target == home:
        return url
    _refuse_downgrade(target, home, where=where)
    address = target.address
    local = target.host == "localhost" or target.host.endswith(".localhost")
    inner = local or (address is not None and (address.is_loopback or address.is_link_local or address.is_unspecified))
    if inner and not home.is_loopback:
        raise WorldError(f"the registry sends us to an address of this machine or link: {target.url}", where=where)
    return url


def token_url(realm: str, *, home: Origin, where: str) -> str:
    """Return the URL of a token service, if a registry at `home` may name it (GHSA-xf85-363p-868w and its kind).

    Beyond `next_url`, an address of a private network is refused unless the registry itself is at a literal address
    of that kind.
    """
    url = next_url(realm, current=realm, home=home, where=where)
    target = origin_of(url, where=where)
    address, own = target.address, home.address
    if target != home and address is not None and address.is_private and (own is None or not own.is_private):
        raise WorldError(f"the registry names a token service inside a private network: {target.url}", where=where)
    return url


def without_query(url: str) -> str:
    """Return an URL for people: query strings of storage services are credentials."""
    return url.partition("#")[0].partition("?")[0]


def _refuse_downgrade(target: Origin, home: Origin, *, where: str) -> None:
    if home.scheme == "https" and target.scheme != "https":
        raise WorldError(f"the registry sends us from https to plain http: {target.url}", where=where)


def _is_odd_number(host: str) -> bool:
    """Whether a resolver may read `host` as an address although it is not spelled as one (127.1, 0x7f000001)."""
    if _NUMBER.fullmatch(host.rpartition(".")[2]) is None:
        return False
    try:
        ipaddress.IPv4Address(host)
    except ValueError:
        return True
    return False
