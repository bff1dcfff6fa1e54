"""The image configuration (image-spec, config.md), without anything that tells where or when it was made."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from packager.base.canonical import format_canonical, parse_json
from packager.base.digests import DiffId, Digest, digest_of, parse_digest
from packager.base.errors import InputError
from packager.oci.descriptor import expect_list, expect_object, expect_text, optional_text, parse_annotations

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CREATED = "1980-01-01T00:00:00Z"
CREATED_BY = "wideswe-pack"


@dataclass(frozen=True)
class ImageConfig:
    """What a container of the image starts with, and the diff ids of its layers, lowest first."""

    architecture: str
    diff_ids: tuple[DiffId, ...]
    os: str = "linux"
    env: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    workdir: str = "/"
    cmd: tuple[str, ...] = ()
    entrypoint: tuple[str, ...] = ()
    user: str = ""


def format_config(config: ImageConfig) -> bytes:
    """Return the configuration as canonical JSON; `created` and `history` are the same for every image."""
    container: dict[str, object] = {"Env": list(config.env), "WorkingDir": config.workdir}
    optional = {"Cmd": list(config.cmd), "Entrypoint": list(config.entrypoint), "User": config.user}
    container.update((key, value) for key, value in optional.items() if value)
    if config.labels:
        container["Labels"] = dict(config.labels)
    return format_canonical(
        {
            "architecture": config.architecture,
            "os": config.os,
            "created": CREATED,
            "config": container,
            "history": [{"created": CREATED, "created_by": CREATED_BY} for _ in config.diff_ids],
            "rootfs": {"type": "layers", "diff_ids": list(config.diff_ids)},
        }
    )


def parse_config(data: bytes, *, where: str = "config") -> ImageConfig:
    """Return the fields that we use of a configuration, ours or another tool's."""
    fields = expect_object(parse_json(data, where=where), where=where)
    rootfs = expect_object(fields.get("rootfs"), where=f"{where}.rootfs")
    if rootfs.get("type") != "layers":
        raise InputError(f"expected layers, found {str(rootfs.get('type'))[:40]}", where=f"{where}.rootfs.type")
    container = expect_object(fields.get("config") or {}, where=f"{where}.config")
    return ImageConfig(
        expect_text(fields.get("architecture"), where=f"{where}.architecture"),
        _parse_diff_ids(rootfs.get("diff_ids"), where=f"{where}.rootfs.diff_ids"),
        expect_text(fields.get("os"), where=f"{where}.os"),
        _texts(container, "Env", where=where),
        parse_annotations(container.get("Labels"), where=f"{where}.config.Labels"),
        optional_text(container.get("WorkingDir"), where=f"{where}.config.WorkingDir") or "/",
        _texts(container, "Cmd", where=where),
        _texts(container, "Entrypoint", where=where),
        optional_text(container.get("User"), where=f"{where}.config.User") or "",
    )


def content_id(diff_ids: Sequence[DiffId], config: bytes) -> Digest:
    """Return the digest over the diff ids and the canonical configuration: equal on every engine and compressor."""
    return digest_of(format_canonical({"config": digest_of(config), "diff_ids": list(diff_ids)}))


def _parse_diff_ids(value: object, *, where: str) -> tuple[DiffId, ...]:
    texts = expect_list(value, where=where)
    return tuple(DiffId(parse_digest(text, where=f"{where}[{n}]")) for n, text in enumerate(texts))


def _texts(container: dict[str, Any], key: str, *, where: str) -> tuple[str, ...]:
    place = f"{where}.config.{key}"
    value = container.get(key)
    texts = [] if value is None else expect_list(value, where=place)
    if not all(isinstance(text, str) for text in texts):
        raise InputError("expected a list of texts", where=place)
    if any("\0" in text for text in texts):
        raise InputError("expected texts without NUL", where=place)
    return tuple(texts)
