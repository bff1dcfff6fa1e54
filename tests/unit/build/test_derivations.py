from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from packager.base.errors import InputError
from packager.build.dockerfile import parse_dockerfile
from packager.build.execute import Builder, Fetches, Input, Stage
from packager.oci.entries import Entry, file_entry
from packager.oci.layer import Layer, open_layer
from packager.oci.tar_reader import read_tar
from packager.sandbox.fetches import Answer
from packager.store.store import Store
from tests.support.fake_engine import FakeEngine, Prepared
from tests.support.fake_fetches import FakeFetches

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

NOTHING = {"true": Prepared(), "install": Prepared(), "other": Prepared(), "make b": Prepared()}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


class Files:
    """An input that counts how often it is made."""

    def __init__(self, **files: str) -> None:
        self.files = files
        self.made = 0

    def input(self) -> Input:
        return Input({"files": self.files}, self._entries)

    def _entries(self, _scratch: Path) -> Iterable[Entry]:
        self.made += 1
        return [file_entry(name.encode(), text.encode()) for name, text in self.files.items()]


def builder(store: Store, engine: FakeEngine | None = None, **inputs: Files) -> Builder:
    given = {f"inputs/{name}.tar": files.input() for name, files in inputs.items()}
    return Builder(store=store, engine=engine or FakeEngine(NOTHING), inputs=given)


def build(made: Builder, *lines: str) -> Stage:
    return made.build(parse_dockerfile("\n".join(("FROM scratch", *lines)) + "\n"))


def contents(store: Store, layer: Layer) -> dict[str, bytes]:
    with open_layer(store, layer) as stream:
        return {entry.path.decode(): reader.read() for entry, reader in read_tar(stream) if entry.size}


def refusal(made: Builder, *lines: str) -> str:
    with pytest.raises(InputError) as caught:
        build(made, *lines)
    return str(caught.value)


def test_add_gives_the_layer_of_its_input(store: Store) -> None:
    stage = build(builder(store, one=Files(a="first")), "ADD inputs/one.tar /")
    (layer,) = stage.layers
    assert contents(store, layer) == {"a": b"first"}


def test_settings_change_the_stage_and_add_no_layer(store: Store) -> None:
    stage = build(builder(store), "ENV B=2 A=1", "ENV B=3", "LABEL x=y", "WORKDIR /w", 'CMD ["/bin/sh"]')
    assert stage == Stage((), (("A", "1"), ("B", "3")), (("x", "y"),), "/w", ("/bin/sh",))


def test_run_gives_what_changed_and_sees_the_settings_above_it(store: Store) -> None:
    engine = FakeEngine({"make b": Prepared({"b": b"second"})})
    stage = build(
        builder(store, engine, one=Files(a="first")), "ADD inputs/one.tar /", "ENV K=V", "WORKDIR /w", "RUN make b"
    )
    assert [contents(store, layer) for layer in stage.layers] == [{"a": b"first"}, {"b": b"second"}]
    (command,) = engine.ran
    assert (command.argv, dict(command.env), command.cwd) == (("/bin/sh", "-c", "make b"), {"K": "V"}, "/w")


def test_run_that_changes_nothing_adds_no_layer(store: Store) -> None:
    stage = build(builder(store, one=Files(a="first")), "ADD inputs/one.tar /", "RUN true")
    assert len(stage.layers) == 1


def test_run_that_fails_says_where_and_shows_the_end_of_its_output(store: Store) -> None:
    engine = FakeEngine({"make b": Prepared(says=b"no rule\n", exit_code=2)})
    lines = ("# step: maker/prepare", "RUN make b")
    assert refusal(builder(store, engine), *lines) == "step maker/prepare: exit code 2 from: make b\nno rule"
    assert refusal(builder(store, engine), "RUN make b") == "Dockerfile:2: exit code 2 from: make b\nno rule"


def test_a_failed_step_is_tried_again_and_a_done_one_is_not(store: Store) -> None:
    engine = FakeEngine({"make b": Prepared(exit_code=1)})
    refusal(builder(store, engine), "RUN make b")
    engine.commands["make b"] = Prepared({"b": b"done"})
    first = build(builder(store, engine), "RUN make b")
    assert build(builder(store, engine), "RUN make b") == first
    assert len(engine.ran) == 2


def test_nothing_is_made_again_until_what_it_depends_on_changes(store: Store) -> None:
    one, engine = Files(a="first"), FakeEngine({"make b": Prepared({"b": b"second"})})
    lines = ["ADD inputs/one.tar /", "ENV K=V", "RUN make b"]
    build(builder(store, engine, one=one), *lines)
    build(builder(store, engine, one=one), *lines)
    assert (one.made, len(engine.ran)) == (1, 1)
    for changed in (
        ["ADD inputs/one.tar /", "ENV K=W", "RUN make b"],
        ["ADD inputs/one.tar /", "ENV K=V", "WORKDIR /w", "RUN make b"],
        ["ENV K=V", "RUN make b"],
    ):
        build(builder(store, engine, one=one), *changed)
    assert (one.made, len(engine.ran)) == (1, 4)


def test_a_result_whose_blob_is_gone_is_made_again(store: Store) -> None:
    one = Files(a="first")
    (layer,) = build(builder(store, one=one), "ADD inputs/one.tar /").layers
    store.path(layer.digest).unlink()
    assert build(builder(store, one=one), "ADD inputs/one.tar /").layers == (layer,)
    assert one.made == 2


def test_other_fetches_are_another_derivation_and_reach_the_engine_by_step(store: Store) -> None:
    engine, source = (
        FakeEngine({**NOTHING, "install": Prepared(asks=["http://a.invalid/x"])}),
        FakeFetches({"http://a.invalid/x": Answer(200)}),
    )
    made = builder(store, engine)
    for digest in ("one", "two", "two"):
        step = Builder(store, engine, made.inputs, {"m/dependencies": Fetches(digest, source)})
        build(step, "# step: m/dependencies", "RUN install", "RUN other")
    assert [command.argv[-1] for command in engine.ran] == ["install", "other", "install"]
    assert [asked.path for asked in source.asked] == ["/x", "/x"]


def test_a_fresh_step_runs_although_its_result_is_known(store: Store) -> None:
    engine = FakeEngine(NOTHING)
    lines = ("# step: m/dependencies", "RUN install")
    build(builder(store, engine), *lines)
    build(Builder(store, engine, {}, fresh=frozenset({"m/dependencies"})), *lines)
    assert len(engine.ran) == 2


def test_copy_flattens_another_stage_into_one_layer(store: Store) -> None:
    engine = FakeEngine({"make b": Prepared({"b": b"second"})})
    stage = build(
        builder(store, engine, one=Files(a="first")),
        "ADD inputs/one.tar /",
        "RUN make b",
    )
    assert len(stage.layers) == 2
    text = "FROM scratch AS first\nADD inputs/one.tar /\nRUN make b\nFROM scratch\nCOPY --from=first / /\n"
    (layer,) = builder(store, engine, one=Files(a="first")).build(parse_dockerfile(text)).layers
    assert contents(store, layer) == {"a": b"first", "b": b"second"}


def test_a_stage_can_start_from_an_earlier_one_or_from_a_locked_image(store: Store) -> None:
    made = builder(store, one=Files(a="first"))
    text = "FROM scratch AS first\nADD inputs/one.tar /\nFROM first\nENV K=V\n"
    stage = made.build(parse_dockerfile(text))
    assert (len(stage.layers), stage.env) == (1, (("K", "V"),))
    imaged = Builder(store, FakeEngine(NOTHING), made.inputs, images=lambda name: Stage(env=(("FROM", name),)))
    assert imaged.build(parse_dockerfile("FROM base@sha256:1\nENV K=V\n")).env == (
        ("FROM", "base@sha256:1"),
        ("K", "V"),
    )


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (
            ("ADD inputs/two.tar /",),
            "Dockerfile:2: ADD takes one of ['inputs/one.tar'] and /, found 'inputs/two.tar /'",
        ),
        (
            ("ADD inputs/one.tar /x",),
            "Dockerfile:2: ADD takes one of ['inputs/one.tar'] and /, found 'inputs/one.tar /x'",
        ),
        (("COPY --from=first / /",), "Dockerfile:2: only COPY --from=STAGE / / is supported"),
        (("FROM base:1",), "Dockerfile: base image 'base:1' is not in the lock\nhint: wideswe-pack lock"),
    ],
)
def test_what_the_language_does_not_have_is_refused(store: Store, lines: tuple[str, ...], said: str) -> None:
    assert refusal(builder(store, one=Files(a="first")), *lines) == said
