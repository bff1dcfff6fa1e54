"""Derivations over an engine that runs nothing: stages, copies between them, and what a failing step says."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from packager.base.errors import InputError, WorldError
from packager.build.dockerfile import parse_dockerfile
from packager.build.execute import Builder, Input, Stage
from packager.build.record import replay_fetches
from packager.oci.entries import Kind, dir_entry, file_entry
from packager.oci.layer import open_layer
from packager.oci.tar_reader import read_tar
from packager.sandbox.foreign import own_platform
from packager.store.store import Store
from tests.support.fake_engine import FakeEngine, Prepared

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from packager.oci.layer import Layer

START = "FROM scratch AS environment\nADD inputs/base.tar /\n"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def builder_of(store: Store, commands: Mapping[str, Prepared]) -> Builder:
    """Return a builder whose base has the files a/one and a/two."""
    entries = [dir_entry(b"a"), file_entry(b"a/one", b"1"), file_entry(b"a/two", b"2")]
    return Builder(store, FakeEngine(commands), {"inputs/base.tar": Input({"kind": "base"}, lambda _: entries)})


def listed(store: Store, layer: Layer) -> dict[str, bytes | None]:
    """Return the entries of a layer: path → content; None for what is no file."""
    with open_layer(store, layer) as stream:
        rows = [(entry, reader.read()) for entry, reader in read_tar(stream)]
    return {entry.path.decode(): data if entry.kind is Kind.FILE else None for entry, data in rows}


def test_a_copy_over_a_base_takes_only_what_the_other_stage_has_more(store: Store) -> None:
    builder = builder_of(store, {"install": Prepared({"a/two": b"22", "b/new": b"n"}, says=b"hello")})
    text = f"{START}FROM environment AS dependencies\nRUN install\nFROM environment\nCOPY --from=dependencies / /\n"
    stage = builder.build(parse_dockerfile(text))
    assert [listed(store, layer) for layer in stage.layers] == [
        {"a": None, "a/one": b"1", "a/two": b"2"},
        {"a": None, "a/two": b"22", "b": None, "b/new": b"n"},
    ]


def test_a_command_of_a_platform_that_cannot_run_here_is_not_tried(store: Store) -> None:
    builder = replace(builder_of(store, {"install": Prepared()}), platform="linux/s390x")
    assert len(builder.build(parse_dockerfile(START)).layers) == 1
    with pytest.raises(WorldError) as caught:
        builder.build(parse_dockerfile(f"{START}RUN install\n"))
    assert str(caught.value).splitlines()[0] == (
        f"this machine is {own_platform()} and cannot run commands of linux/s390x: no such platform is known"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes the device that stands for a deletion")
def test_a_copy_deletes_nothing_and_what_a_stage_took_away_again_never_comes_along(store: Store) -> None:
    commands = {
        "gold": Prepared({"secret": b"gold's", "kept": b"k"}),
        "base": Prepared(removes=["secret", "a/one"]),
    }
    text = f"{START}FROM environment AS d\nRUN gold\nRUN base\nFROM environment\nCOPY --from=d / /\n"
    stage = builder_of(store, commands).build(parse_dockerfile(text))
    assert [listed(store, layer) for layer in stage.layers[1:]] == [{"a": None, "kept": b"k"}]


def test_a_copy_of_the_same_adds_no_layer(store: Store) -> None:
    text = f"{START}FROM environment AS d\nFROM environment\nCOPY --from=d / /\n"
    assert len(builder_of(store, {}).build(parse_dockerfile(text)).layers) == 1


def test_a_known_step_does_not_run_again_and_a_fresh_one_does(store: Store) -> None:
    builder = builder_of(store, {"install": Prepared({"x": b"x"})})
    instructions = parse_dockerfile(f"{START}# step: t/dependencies\nRUN install\n")
    stages = [
        one.build(instructions) for one in (builder, builder, replace(builder, fresh=frozenset({"t/dependencies"})))
    ]
    assert stages[1:] == [stages[0]] * 2
    engine = builder.engine
    assert isinstance(engine, FakeEngine)
    assert [command.argv[-1] for command in engine.ran] == ["install"] * 2


def test_a_failing_step_says_what_it_wrote_and_what_it_was_refused(store: Store) -> None:
    url = "https://host.invalid/thing?x=1"
    builder = builder_of(store, {"fetch": Prepared(asks=[url, url], says=b"cannot go on\n", exit_code=3)})
    fetches = replay_fetches(store, ["t/dependencies"], (), ())
    with pytest.raises(InputError) as caught:
        replace(builder, fetches=fetches).build(parse_dockerfile(f"{START}# step: t/dependencies\nRUN fetch\n"))
    assert str(caught.value) == (
        f"step t/dependencies: exit code 3 from: fetch\ncannot go on\nnot in the lock: GET {url}\n"
        "hint: checklist I (an input that is not pinned): pin a version, a commit or a digest in the recipe, and fetch it "
        "where it is recorded"
    )
    with pytest.raises(InputError) as caught:
        builder.build(parse_dockerfile(f"{START}RUN fetch\n"))
    assert str(caught.value) == "Dockerfile:3: exit code 3 from: fetch\ncannot go on"


def test_a_base_image_is_what_images_says_and_brings_its_environment(store: Store) -> None:
    builder = builder_of(store, {})
    base = Stage(builder.build(parse_dockerfile(START)).layers, env=(("A", "1"),), command=("sh",))
    asked = []

    def images(name: str) -> Stage:
        asked.append(name)
        return base

    text = "FROM registry.invalid/base@sha256:00\nENTRYPOINT []\nENV B=2\n"
    stage = replace(builder, images=images).build(parse_dockerfile(text))
    assert stage == replace(base, env=(("A", "1"), ("B", "2")))
    assert asked == ["registry.invalid/base@sha256:00"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "FROM registry.invalid/base:v1\n",
            "Dockerfile: base image 'registry.invalid/base:v1' is not in the lock\nhint: wideswe-pack lock",
        ),
        (f'{START}ENTRYPOINT ["sh"]\n', "Dockerfile:3: only ENTRYPOINT [] is supported"),
        (f"{START}COPY --from=nowhere / /\n", "Dockerfile:3: only COPY --from=STAGE / / is supported"),
        (f"{START}COPY --from=environment /a /\n", "Dockerfile:3: only COPY --from=STAGE / / is supported"),
        (f"{START}ADD other.tar /\n", "Dockerfile:3: ADD takes one of ['inputs/base.tar'] and /, found 'other.tar /'"),
    ],
)
def test_what_cannot_be_executed_is_refused_with_its_line(store: Store, text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        builder_of(store, {}).build(parse_dockerfile(text))
    assert str(caught.value) == message
