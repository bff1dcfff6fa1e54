"""What stock tools need to judge our images: policies of containers/image (skopeo, podman, CRI-O, bootc) and keys.

A signature names the canonical home. A mirror has another name, so its scope says what the home was (`remapIdentity`).
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

from packager.base.errors import InputError
from packager.oci.reference import parse_reference

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.trust.keys import PublicKey


def format_engine_policy(home: str, mirrors: Sequence[str], keys: Sequence[PublicKey]) -> str:
    """Return a policy.json (containers-policy.json(5)): everything is refused but what one of the keys signed."""
    scopes: dict[str, Any] = {check_scope(home): [_requirement(keys)]}
    for mirror in mirrors:
        identity = {"type": "remapIdentity", "prefix": check_scope(mirror), "signedPrefix": home}
        scopes[mirror] = [{**_requirement(keys), "signedIdentity": identity}]
    policy = {"default": [{"type": "reject"}], "transports": {"docker": scopes}}
    return json.dumps(policy, indent=2) + "\n"


def format_registries(home: str, mirrors: Sequence[str]) -> str:
    """Return a file for registries.d (containers-registries.d(5)): without it the engines look for no signature."""
    scopes = {check_scope(scope): {"use-sigstore-attachments": True} for scope in (home, *mirrors)}
    return json.dumps({"docker": scopes}, indent=2) + "\n"  # JSON is YAML


def check_scope(text: str) -> str:
    """Return REGISTRY/NAMESPACE; anything else would be a scope that never matches."""
    reference = parse_reference(text, where="scope")
    if reference.tag is not None or reference.digest is not None:
        raise InputError(f"expected REGISTRY/NAMESPACE, found {text[:200]!r}", where="scope")
    return text


def _requirement(keys: Sequence[PublicKey]) -> dict[str, Any]:
    """Return one requirement; several would all have to hold, so several keys stand in one (since skopeo 1.17)."""
    if not keys:
        raise InputError("expected at least one key", where="policy")
    texts = [base64.b64encode(key.pem).decode() for key in keys]
    if len(texts) == 1:
        return {"type": "sigstoreSigned", "keyData": texts[0]}
    return {"type": "sigstoreSigned", "keyDatas": texts}
