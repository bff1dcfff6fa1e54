"""Where a registry is reached, and where it may send us."""

from __future__ import annotations

import pytest

from packager.base.errors import InputError, WorldError
from packager.registry.origins import next_url, registry_origin, token_url


@pytest.mark.parametrize(
    ("host", "insecure", "url"),
    [
        ("registry.example", None, "https://registry.example"),
        ("registry.example:8443", None, "https://registry.example:8443"),
        ("registry.example:5000", True, "http://registry.example:5000"),
        ("127.0.0.1:5000", None, "http://127.0.0.1:5000"),
        ("127.8.0.1", None, "http://127.8.0.1"),
        ("[::1]:5000", None, "http://[::1]:5000"),
        ("127.0.0.1:5000", False, "https://127.0.0.1:5000"),
        ("localhost:5000", None, "http://127.0.0.1:5000"),
        ("localhost:5000", False, "https://localhost:5000"),
        ("127.0.0.1.example", None, "https://127.0.0.1.example"),
        ("10.0.0.1:5000", None, "https://10.0.0.1:5000"),
    ],
)
def test_plain_http_is_for_loopback_or_on_request(host: str, insecure: bool | None, url: str) -> None:
    assert registry_origin(host, insecure=insecure).url == url


@pytest.mark.parametrize(
    "host", ["", "a/b", "user@host", "host:99999", "127.1:5000", "0x7f000001", "2130706433", "a b"]
)
def test_what_is_no_host_is_refused(host: str) -> None:
    with pytest.raises(InputError) as caught:
        registry_origin(host, insecure=None)
    assert str(caught.value) == f"registry: expected host or host:port, found {host!r}"


HOME = "https://registry.example"


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("/v2/x?a=b", f"{HOME}/v2/x?a=b"),
        ("https://storage.example/x?signature=s#f", "https://storage.example/x?signature=s"),
        ("https://10.0.0.5/x", "https://10.0.0.5/x"),
    ],
)
def test_redirects_may_lead_to_other_hosts(location: str, expected: str) -> None:
    home = registry_origin("registry.example", insecure=None)
    assert next_url(location, current=f"{HOME}/v2/a/blobs/b", home=home, where="r") == expected


LOCAL = "r: the registry sends us to an address of this machine or link: "


@pytest.mark.parametrize(
    ("location", "text"),
    [
        ("http://storage.example/x", "r: the registry sends us from https to plain http: http://storage.example"),
        ("https://127.0.0.1/x", f"{LOCAL}https://127.0.0.1"),
        ("https://[::1]/x", f"{LOCAL}https://[::1]"),
        ("https://[::ffff:127.0.0.1]/x", f"{LOCAL}https://[::ffff:127.0.0.1]"),
        ("https://169.254.169.254/latest", f"{LOCAL}https://169.254.169.254"),
        ("https://localhost:99/x", f"{LOCAL}https://localhost:99"),
        ("https://0.0.0.0/x", f"{LOCAL}https://0.0.0.0"),
        (
            "https://me:secret@h.example/x",
            "r: the registry names an URL that is not acceptable: 'https://me:secret@h.example/x'",
        ),
        ("ftp://h.example/x?s=1", "r: the registry names an URL that is not acceptable: 'ftp://h.example/x'"),
        ("https://0x7f000001/x", "r: the registry names an URL that is not acceptable: 'https://0x7f000001/x'"),
        ("https://127.1/x", "r: the registry names an URL that is not acceptable: 'https://127.1/x'"),
        ("https://[x/", "r: the registry names an URL that is not acceptable: 'https://[x/'"),
        ("//[", "r: the registry names an URL that is not acceptable: '//['"),
        ("https://h.example:99999/", "r: the registry names an URL that is not acceptable: 'https://h.example:99999/'"),
        (
            "https://h.example\\@e.example/",
            "r: the registry names an URL that is not acceptable: 'https://h.example\\\\@e.example/'",
        ),
    ],
)
def test_redirects_never_lead_into_this_machine_or_out_of_tls(location: str, text: str) -> None:
    home = registry_origin("registry.example", insecure=None)
    with pytest.raises(WorldError) as caught:
        next_url(location, current=f"{HOME}/v2/a/blobs/b", home=home, where="r")
    assert str(caught.value) == text


def test_a_token_service_is_not_inside_a_private_network_unless_the_registry_is() -> None:
    with pytest.raises(WorldError) as caught:
        token_url("https://10.0.0.5/token", home=registry_origin("registry.example", insecure=None), where="r")
    assert str(caught.value) == "r: the registry names a token service inside a private network: https://10.0.0.5"
    own = registry_origin("10.0.0.4", insecure=None)
    assert token_url("https://10.0.0.5/token", home=own, where="r") == "https://10.0.0.5/token"
