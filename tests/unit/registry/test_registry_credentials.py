"""Docker's configuration: where credentials come from, in which order, and what is refused."""

from __future__ import annotations

import base64
import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from packager.base.errors import InputError, WorldError
from packager.registry.credentials import Credentials, find_credentials

if TYPE_CHECKING:
    from pathlib import Path

HOST = "registry.example:5000"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def write(folder: Path, value: Any) -> dict[str, str]:
    (folder / "config.json").write_text(json.dumps(value))
    return {"DOCKER_CONFIG": str(folder), "PATH": f"{folder}:{os.environ['PATH']}"}


def write_helper(folder: Path, name: str, answer: str, code: int = 0) -> None:
    path = folder / f"docker-credential-{name}"
    path.write_text(
        f"#!/bin/sh\nread server\necho \"$1 $server\" > {folder}/asked\ncat <<'X'\n{answer}\nX\nexit {code}\n"
    )
    path.chmod(0o755)


def encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_without_a_configuration_there_are_none(folder: Path) -> None:
    assert find_credentials(HOST, {}) is None
    assert find_credentials(HOST, {"HOME": str(folder)}) is None


def test_home_is_searched_without_docker_config(folder: Path) -> None:
    (folder / ".docker").mkdir()
    write(folder / ".docker", {"auths": {HOST: {"auth": encode("me:pass:word")}}})
    assert find_credentials(HOST, {"HOME": str(folder)}) == Credentials("me", "pass:word")


def test_podmans_file_is_looked_into_after_dockers(folder: Path) -> None:
    place = folder / "containers"
    place.mkdir()
    scoped = {f"{HOST}/some": {"auth": encode("some:one")}}
    (place / "auth.json").write_text(json.dumps({"auths": {**scoped, HOST: {"auth": encode("pod:man")}}}))
    here = {"XDG_RUNTIME_DIR": str(folder)}
    assert find_credentials(HOST, here) == Credentials("pod", "man")
    assert find_credentials(HOST, {**here, **write(folder, {"auths": {}})}) == Credentials("pod", "man")
    docker = write(folder, {"auths": {HOST: {"auth": encode("doc:ker")}}})
    assert find_credentials(HOST, {**here, **docker}) == Credentials("doc", "ker")
    (folder / "named.json").write_text(json.dumps({"auths": scoped}))
    assert find_credentials(HOST, {**here, "REGISTRY_AUTH_FILE": str(folder / "named.json")}) is None


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"auth": encode("me:secret\0\0")}, Credentials("me", "secret")),
        ({"username": "me", "password": "secret"}, Credentials("me", "secret")),
        ({"auth": encode("me:"), "identitytoken": "it"}, Credentials("me", "", identity_token="it")),
        ({"registrytoken": "rt"}, Credentials(registry_token="rt")),
        ({}, None),
    ],
)
def test_auths_hold_passwords_and_tokens(folder: Path, entry: object, expected: Credentials | None) -> None:
    assert find_credentials(HOST, write(folder, {"auths": {HOST: entry}})) == expected


def test_old_keys_are_urls_and_other_hosts_do_not_match(folder: Path) -> None:
    auths = {f"https://{HOST}/v1/": {"auth": encode("me:old")}, "registry.example": {"auth": encode("you:other")}}
    assert find_credentials(HOST, write(folder, {"auths": auths})) == Credentials("me", "old")
    assert find_credentials("example:5000", write(folder, {"auths": auths})) is None


def test_the_helper_of_the_host_comes_before_the_one_for_all(folder: Path) -> None:
    write_helper(folder, "mine", '{"ServerURL":"x","Username":"me","Secret":"from-mine"}')
    environ = write(folder, {"credHelpers": {HOST: "mine"}, "credsStore": "absent", "auths": {HOST: {}}})
    assert find_credentials(HOST, environ) == Credentials("me", "from-mine")
    assert (folder / "asked").read_text() == f"get {HOST}\n"


def test_a_helper_hands_out_identity_tokens(folder: Path) -> None:
    write_helper(folder, "all", '{"ServerURL":"x","Username":"<token>","Secret":"it"}')
    assert find_credentials(HOST, write(folder, {"credsStore": "all"})) == Credentials(identity_token="it")


def test_a_helper_that_knows_nothing_leaves_it_to_auths(folder: Path) -> None:
    write_helper(folder, "all", "credentials not found in native keychain", 1)
    environ = write(folder, {"credsStore": "all", "auths": {HOST: {"auth": encode("me:secret")}}})
    assert find_credentials(HOST, environ) == Credentials("me", "secret")


@pytest.mark.parametrize("name", ["../../bin/sh", "a/b", "", " ", "-x", ".", 7])
def test_a_helper_name_with_path_characters_is_refused(folder: Path, name: object) -> None:
    environ = write(folder, {"credHelpers": {HOST: name}})
    if not name:
        assert find_credentials(HOST, environ) is None
        return
    with pytest.raises(InputError) as caught:
        find_credentials(HOST, environ)
    assert str(caught.value) == (
        f"{folder}/config.json: not the name of a credential helper: {str(name)!r}\n"
        "hint: write the part of the program's name that follows `docker-credential-`"
    )


def test_a_helper_that_fails_is_named(folder: Path) -> None:
    write_helper(folder, "all", "the keychain is locked", 3)
    with pytest.raises(WorldError) as caught:
        find_credentials(HOST, write(folder, {"credsStore": "all"}))
    assert str(caught.value) == f"{HOST}: docker-credential-all ended with exit code 3: the keychain is locked"


def test_what_a_helper_says_is_not_repeated(folder: Path) -> None:
    write_helper(folder, "all", "Secret=hunter2")
    with pytest.raises(WorldError) as caught:
        find_credentials(HOST, write(folder, {"credsStore": "all"}))
    expected = "expected a JSON object with Username and Secret from docker-credential-all, found something else"
    assert str(caught.value) == f"{HOST}: {expected}"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([], ": expected a JSON object, found list"),
        ({"auths": []}, None),
        ({"auths": 1}, ": auths: expected a JSON object, found int"),
        ({"auths": {HOST: "x"}}, f": auths[{HOST!r}]: expected a JSON object, found str"),
        ({"auths": {HOST: {"identitytoken": 1}}}, f": auths[{HOST!r}].identitytoken: expected text, found int"),
        (
            {"auths": {HOST: {"auth": "hunter2"}}},
            f": auths[{HOST!r}]: expected base64 of user:password in auth, found something else\nhint: run `docker login` again",
        ),
    ],
)
def test_a_wrong_configuration_is_named_without_its_secrets(folder: Path, value: object, text: str | None) -> None:
    environ = write(folder, value)
    if text is None:
        assert find_credentials(HOST, environ) is None
        return
    with pytest.raises(InputError) as caught:
        find_credentials(HOST, environ)
    assert str(caught.value) == f"{folder}/config.json{text}"


def test_secrets_do_not_show_in_a_representation() -> None:
    assert repr(Credentials("me", "a", "b", "c")) == "Credentials(username='me')"
