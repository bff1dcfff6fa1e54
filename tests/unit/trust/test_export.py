"""What other tools are told: the exact policy, and no scope that would never match."""

from __future__ import annotations

import base64
import json

import pytest

from packager.base.errors import InputError
from packager.trust.export import format_engine_policy, format_registries
from tests.support.sealed_images import KEY, OTHER_KEY

HOME, MIRROR = "registry.example/suite", "mirror.lab:5000/copies"


def encoded(pem: bytes) -> str:
    return base64.b64encode(pem).decode()


def test_the_policy_refuses_all_but_what_a_key_signed_for_this_home() -> None:
    assert json.loads(format_engine_policy(HOME, [MIRROR], [KEY.public])) == {
        "default": [{"type": "reject"}],
        "transports": {
            "docker": {
                HOME: [{"type": "sigstoreSigned", "keyData": encoded(KEY.public.pem)}],
                MIRROR: [
                    {
                        "type": "sigstoreSigned",
                        "keyData": encoded(KEY.public.pem),
                        "signedIdentity": {"type": "remapIdentity", "prefix": MIRROR, "signedPrefix": HOME},
                    }
                ],
            }
        },
    }


def test_several_keys_stand_in_one_requirement_since_several_would_all_have_to_hold() -> None:
    policy = json.loads(format_engine_policy(HOME, [], [KEY.public, OTHER_KEY.public]))
    (requirement,) = policy["transports"]["docker"][HOME]
    assert requirement["keyDatas"] == [encoded(KEY.public.pem), encoded(OTHER_KEY.public.pem)]
    assert "keyData" not in requirement


def test_engines_are_told_where_to_look() -> None:
    assert json.loads(format_registries(HOME, [MIRROR])) == {
        "docker": {HOME: {"use-sigstore-attachments": True}, MIRROR: {"use-sigstore-attachments": True}}
    }


@pytest.mark.parametrize("scope", ["registry.example/suite:v1", "registry.example/suite@sha256:" + "0" * 64])
def test_a_scope_that_never_matches_is_refused(scope: str) -> None:
    with pytest.raises(InputError) as caught:
        format_engine_policy(HOME, [scope], [KEY.public])
    assert str(caught.value) == f"scope: expected REGISTRY/NAMESPACE, found {scope!r}"


def test_no_key_is_no_policy() -> None:
    with pytest.raises(InputError) as caught:
        format_engine_policy(HOME, [], [])
    assert str(caught.value) == "policy: expected at least one key"
