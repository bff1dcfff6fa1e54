"""Basic and Bearer against a registry over real HTTP: tokens per scope, expiry, and who gets to see credentials."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

import pytest

from packager.base.errors import PackError, WorldError
from packager.oci.reference import Reference
from packager.registry.client import RegistryClient
from packager.registry.http import Pacing
from packager.registry.pull import Pull
from packager.registry.push import Manner, Push
from packager.store.store import Store
from tests.support.images import layers_of, make_image
from tests.support.registry import MemoryRegistry, Options
from tests.support.registry_contract import QUICK

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

USERS = {"someone": "secret"}
BASIC = "Basic " + base64.b64encode(b"someone:secret").decode()


@pytest.fixture
def log_in(tmp_path: Path) -> Callable[..., dict[str, str]]:
    def write(host: str, **entry: str) -> dict[str, str]:
        entry = entry or {"username": "someone", "password": "secret"}
        (tmp_path / "config.json").write_text(json.dumps({"auths": {host: entry}}))
        return {"DOCKER_CONFIG": str(tmp_path)}

    return write


def make_store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def authorizations(registry: MemoryRegistry, part: str) -> list[str | None]:
    return [seen.headers.get("Authorization") for seen in registry.seen if part in seen.path]


def test_basic_is_sent_only_after_it_is_asked_for(log_in: Callable[..., dict[str, str]]) -> None:
    with MemoryRegistry(Options(authentication="basic", users=USERS)) as registry:
        client = RegistryClient(registry.host, environ=log_in(registry.host), pacing=QUICK)
        assert client.head_manifest("suite/task", "v1") is None
        assert client.head_manifest("suite/task", "v2") is None
        assert authorizations(registry, "/manifests/") == [None, BASIC, BASIC]


def test_a_token_serves_its_scope_until_it_ends(log_in: Callable[..., dict[str, str]]) -> None:
    clock = [1000.0]
    pacing = Pacing(attempts=2, first_wait_s=0.001, now=lambda: clock[0])
    with MemoryRegistry(Options(authentication="bearer", users=USERS, token_life_s=300)) as registry:
        client = RegistryClient(registry.host, environ=log_in(registry.host), pacing=pacing)
        for seconds, tokens in ((0, 1), (200, 1), (94, 1), (2, 2)):
            clock[0] += seconds
            client.head_manifest("suite/task", "v1")
            assert len(registry.requests("GET", "/token")) == tokens
        client.head_manifest("suite/other", "v1")
        assert registry.requests("GET", "/token")[1:] == [
            "/token?service=here&scope=repository:suite/task:pull",
            "/token?service=here&scope=repository:suite/other:pull",
        ]
        assert authorizations(registry, "/token") == [BASIC, BASIC, BASIC]


def test_a_token_that_is_revoked_early_is_fetched_again(log_in: Callable[..., dict[str, str]]) -> None:
    with MemoryRegistry(Options(authentication="bearer", users=USERS)) as registry:
        client = RegistryClient(registry.host, environ=log_in(registry.host), pacing=QUICK)
        client.head_manifest("suite/task", "v1")
        registry.tokens.clear()
        assert client.head_manifest("suite/task", "v1") is None
        assert len(registry.requests("GET", "/token")) == 2


def test_an_identity_token_is_exchanged_by_post(log_in: Callable[..., dict[str, str]]) -> None:
    options = Options(authentication="bearer", users=USERS, identity_tokens={"it": "someone"})
    with MemoryRegistry(options) as registry:
        environ = log_in(registry.host, identitytoken="it")
        client = RegistryClient(registry.host, environ=environ, pacing=QUICK)
        assert client.head_manifest("suite/task", "v1") is None
        assert registry.requests("POST", "/token") == ["/token"]
        assert registry.requests("GET", "/token") == []


def test_a_registry_token_is_used_as_it_is(log_in: Callable[..., dict[str, str]]) -> None:
    with MemoryRegistry(Options(authentication="bearer", users=USERS)) as registry:
        registry.tokens["ready"] = ({"suite/task:pull"}, float("inf"))
        environ = log_in(registry.host, registrytoken="ready")
        client = RegistryClient(registry.host, environ=environ, pacing=QUICK)
        assert client.head_manifest("suite/task", "v1") is None
        assert authorizations(registry, "/token") == []


def test_a_mount_asks_for_both_repositories(tmp_path: Path, log_in: Callable[..., dict[str, str]]) -> None:
    store = make_store(tmp_path)
    record = make_image(store, sizes=(100,))
    with MemoryRegistry(Options(authentication="bearer", users=USERS)) as registry:
        client = RegistryClient(registry.host, environ=log_in(registry.host), pacing=QUICK)
        from_first = Manner(mounts=dict.fromkeys(layers_of(store, record), "first"))
        for name in ("first", "second"):
            Push(client, store, Reference(registry.host, name, "v1"), manner=from_first).run(record)
        assert "/token?service=here&scope=repository:first:pull&scope=repository:second:pull,push" in (
            registry.requests("GET", "/token")
        )
        assert len(registry.requests("PUT", "/v2/second/blobs/")) == 0


def test_wrong_credentials_are_refused_with_what_to_do(log_in: Callable[..., dict[str, str]]) -> None:
    with MemoryRegistry(Options(authentication="bearer", users={"someone": "other"})) as registry:
        client = RegistryClient(registry.host, environ=log_in(registry.host), pacing=QUICK)
        with pytest.raises(WorldError) as caught:
            client.head_manifest("suite/task", "v1")
        assert str(caught.value) == (
            f"{registry.host}: token service {registry.url}: expected a token (status 200), found status 401 for our"
            f" credentials\nhint: run `docker login {registry.host}`"
        )
        assert not caught.value.retryable
        assert "secret" not in str(caught.value)


def test_without_credentials_basic_is_refused_by_name() -> None:
    with MemoryRegistry(Options(authentication="basic", users=USERS)) as registry:
        client = RegistryClient(registry.host, environ={}, pacing=QUICK)
        with pytest.raises(WorldError) as caught:
            client.list_tags("suite/task")
        assert str(caught.value) == (
            f"{registry.host}/suite/task: tags: expected status 200, found 401 (UNAUTHORIZED: unauthorized)\n"
            "hint: log in with `docker login`; the account must be allowed to do this"
        )


@pytest.mark.parametrize(
    ("realm", "text"),
    [
        (
            "http://token.example/t",
            "token service http://token.example: refused to send credentials over plain http\nhint: let the registry name an https token service, or log out to go on without credentials",
        ),
        (" ", "the registry names an URL that is not acceptable: ''"),
        ("/token", "the registry names an URL that is not acceptable: '/token'"),
        ("file:///etc/passwd", "the registry names an URL that is not acceptable: 'file:///etc/passwd'"),
    ],
)
def test_a_realm_that_would_steal_credentials_is_refused(
    log_in: Callable[..., dict[str, str]], realm: str, text: str
) -> None:
    with MemoryRegistry(Options(authentication="bearer", users=USERS, realm=realm)) as registry:
        client = RegistryClient(registry.host, environ=log_in(registry.host), pacing=QUICK)
        with pytest.raises(WorldError) as caught:
            client.head_manifest("suite/task", "v1")
        assert str(caught.value) == f"{registry.host}: {text}"
        assert registry.requests("GET", "/token") == []


def test_a_realm_that_moves_in_between_is_refused(log_in: Callable[..., dict[str, str]]) -> None:
    with (
        MemoryRegistry(Options(authentication="bearer", users=USERS)) as registry,
        MemoryRegistry(Options(users=USERS)) as stranger,
    ):
        client = RegistryClient(registry.host, environ=log_in(registry.host), pacing=QUICK)
        client.head_manifest("suite/task", "v1")
        registry.options.realm = f"{stranger.url}/token"
        registry.tokens.clear()
        with pytest.raises(WorldError) as caught:
            client.head_manifest("suite/task", "v1")
        expected = f"the token service changed from {registry.url}/token to {stranger.url}"
        assert str(caught.value) == f"{registry.host}: {expected}"
        assert stranger.seen == []


def test_blobs_on_another_host_are_fetched_without_credentials(
    tmp_path: Path, log_in: Callable[..., dict[str, str]]
) -> None:
    source = make_store(tmp_path)
    record = make_image(source)
    with MemoryRegistry(Options(authentication="bearer", users=USERS)) as registry, MemoryRegistry() as storage:
        client = RegistryClient(registry.host, environ=log_in(registry.host), pacing=QUICK)
        reference = Reference(registry.host, "suite/task", "v1")
        Push(client, source, reference).run(record)
        storage.blobs = registry.blobs
        registry.options.storage_host = storage.host
        store = Store(tmp_path / "other")
        assert Pull(client, store, reference).run() == record
        assert len(storage.seen) == 3
        assert authorizations(storage, "") == [None] * 3
        assert not store.check()


def test_a_stranger_that_asks_for_credentials_gets_none(tmp_path: Path, log_in: Callable[..., dict[str, str]]) -> None:
    source = make_store(tmp_path)
    record = make_image(source)
    with (
        MemoryRegistry(Options(authentication="bearer", users=USERS)) as registry,
        MemoryRegistry(Options(authentication="basic", users=USERS)) as storage,
    ):
        client = RegistryClient(registry.host, environ=log_in(registry.host), pacing=QUICK)
        reference = Reference(registry.host, "suite/task", "v1")
        Push(client, source, reference).run(record)
        registry.options.storage_host = storage.host
        with pytest.raises(PackError) as caught:
            Pull(client, Store(tmp_path / "other"), reference, workers=1).run()
        assert "expected status 200, found 401" in str(caught.value)
        assert "signature=" not in str(caught.value)
        assert set(authorizations(storage, "")) == {None}


def test_cookies_are_not_kept(log_in: Callable[..., dict[str, str]]) -> None:
    with MemoryRegistry() as registry:
        registry.options.extra_headers = {"Set-Cookie": "id=1; Path=/"}
        client = RegistryClient(registry.host, environ=log_in(registry.host), pacing=QUICK)
        for _ in range(2):
            client.head_manifest("suite/task", "v1")
        assert [seen.headers.get("Cookie") for seen in registry.seen] == [None, None]
        assert registry.seen[0].headers["Accept-Encoding"] == "identity"
