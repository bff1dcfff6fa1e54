"""A locked task as something to build, over an engine that runs nothing: inputs, context, images."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from packager.base.digests import digest_of
from packager.base.errors import InputError
from packager.build.context import write_context
from packager.build.inputs import task_inputs
from packager.lock.model import LockedBase, LockedBlob, LockedToolchain
from packager.lock.toolchains import TOOLCHAIN_LAYOUT
from packager.oci.manifest import MEDIA_LAYER_TAR, MEDIA_MANIFEST, parse_manifest
from packager.oci.places import SEALED_PATH
from packager.oci.tar_reader import read_tar
from packager.recipe.model import Archive, Toolchain
from tests.support.locked_task import IMAGE, INSTALL, make

if TYPE_CHECKING:
    from pathlib import Path


def files_of(path: Path) -> dict[str, bytes]:
    with path.open("rb") as stream:
        rows = [(entry, reader.read()) for entry, reader in read_tar(stream)]
    return {entry.path.decode(): data for entry, data in rows if data}


def test_the_context_without_the_seal_holds_what_the_dockerfile_adds(tmp_path: Path) -> None:
    made = make(tmp_path)
    names = write_context(made.task_build, tmp_path / "context")
    assert names == (
        "inputs/gold-manifests-one.tar",
        "inputs/manifests-one.tar",
        "inputs/history-one.tar",
        "inputs/target-one.tar",
        "inputs/task.tar",
    )
    place = tmp_path / "context"
    assert files_of(place / names[0]) == {"workspace/one/need.txt": b"a\nb\n"}
    assert files_of(place / names[1]) == {"workspace/one/need.txt": b"a\n"}
    assert files_of(place / names[3]) == {"workspace/one/code": b"1\n", "workspace/one/need.txt": b"a\n"}
    assert (place / "Dockerfile").read_text() == made.task_build.dockerfile(sealed=False)
    assert sorted(path.name for path in (place / "inputs").iterdir()) == sorted(name[7:] for name in names)


def test_the_environment_has_the_net_of_both_installs_and_the_base_images_settings(tmp_path: Path) -> None:
    made = make(tmp_path)
    stage = made.task_build.environment()
    assert [command.argv[-1] for command in made.engine.ran] == [INSTALL, "rm -rf /workspace/one", INSTALL]
    assert dict(stage.env)["FROM"] == "base"
    assert (stage.workdir, stage.command) == ("/workspace", ("/bin/sh",))
    sealed = made.task_build.sealed(b"sealed")
    assert sealed.layers[:-1] == stage.layers
    with made.task_build.store.open(sealed.layers[-1].digest) as _:
        assert (
            made.task_build.builder().tree(sealed.layers[-1]).joinpath(SEALED_PATH.decode()).read_bytes() == b"sealed"
        )
    image = made.task_build.image(sealed)
    manifest = parse_manifest(made.task_build.store.read(image.manifest.digest, 1 << 20))
    assert [row.digest for row in manifest.layers] == [layer.digest for layer in sealed.layers]
    assert manifest.layers[0].media_type == MEDIA_LAYER_TAR
    assert image.manifest.media_type == MEDIA_MANIFEST


def test_without_a_change_of_manifests_there_is_no_stage_for_gold(tmp_path: Path) -> None:
    made = make(tmp_path, manifests=["code.lock"], dependencies=["install"])
    made.task_build.environment()
    assert [command.argv[-1] for command in made.engine.ran] == [INSTALL]
    assert "gold" not in made.task_build.dockerfile(sealed=True)


def test_a_base_image_that_the_lock_does_not_pin_is_refused(tmp_path: Path) -> None:
    made = make(tmp_path)
    other = replace(made.task_build, lock=replace(made.lock(), base=LockedBase("bookworm")))
    with pytest.raises(InputError) as caught:
        other.environment()
    assert str(caught.value) == (
        f"one-001: base image '{IMAGE}' is not in the lock\nhint: wideswe-pack lock --task one-001"
    )


def test_a_toolchain_is_known_by_its_version_and_layout_too(tmp_path: Path) -> None:
    """The version of an archive says how much is taken off its paths: same bytes, other files."""
    build = make(tmp_path).task_build
    (target,) = build.recipe.targets
    archive = Archive(url="https://example.org/tool.tar", sha256="0" * 64, strip=1)
    asked = target.model_copy(update={"toolchain": Toolchain(archive=archive)})
    recipe = build.recipe.model_copy(update={"targets": (asked,)})
    blob = LockedBlob("web", "example.org/tool.tar", digest_of(b""), 0)
    keys = []
    for version in ("tool/1", "tool/2", "tool/1"):
        lock = replace(build.lock, toolchains=(LockedToolchain("archive", version, blob),))
        made = task_inputs(recipe, lock, store=build.store, repositories=build.repositories)
        keys.append(made["inputs/toolchain-archive.tar"].spec)
    assert keys[0] != keys[1]
    assert keys[0] == keys[2]
    assert keys[0]["layout"] == TOOLCHAIN_LAYOUT
