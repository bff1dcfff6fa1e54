"""Tasks of one repository that name the same commit have its ancestors in one and the same layer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from packager.build.audit import audit_image
from packager.build.audit_task import derive_task_secrets, trusted_layers
from packager.evaluate.judge import read_image
from packager.lock.model import format_lock, parse_lock
from packager.oci.record import ImageRecord
from tests.support.locked_task import SAMPLE, Made, make_task

if TYPE_CHECKING:
    from pathlib import Path

    from packager.oci.layer import Layer

WORDS = "".join(f"word {number}\n" for number in range(5000))
PAST = ({"need.txt": "old\n", "words": WORDS}, {"need.txt": "older\n", "words": WORDS + "more\n"})
TARGET_LAYERS = 3


def task(folder: Path, code: str, *, shared: bool = True) -> Made:
    """Make a task whose base is a commit of its own on top of the same past."""
    history: dict[str, object] = {"history": {"shared": "{past}"}} if shared else {}
    sample = replace(
        SAMPLE,
        files={**SAMPLE.files, "code": code, "words": WORDS},
        gold={**SAMPLE.gold, "words": WORDS},
        past=PAST,
        fields={**SAMPLE.fields, **history},
    )
    return make_task(folder, sample)


def layers(made: Made) -> tuple[Layer, ...]:
    return made.task_build.environment().layers


def test_the_layer_of_the_shared_past_is_the_same_and_the_others_are_not(tmp_path: Path) -> None:
    one, two = task(tmp_path / "a", "one\n"), task(tmp_path / "b", "two\n")
    assert one.lock().repos[0].commit != two.lock().repos[0].commit
    assert one.lock().repos[0].shared == two.lock().repos[0].shared
    ours, theirs = layers(one)[-4:-1], layers(two)[-4:-1]  # shared history, history, target; the task's files are last
    assert [a == b for a, b in zip(ours, theirs, strict=True)] == [True, False, False]
    assert ours[0].diff_size > 50_000
    assert ours[1].diff_size < 20_000


def test_without_a_shared_commit_the_layers_are_those_that_they_were(tmp_path: Path) -> None:
    made = task(tmp_path, "one\n", shared=False)
    assert "shared" not in made.task_build.dockerfile(sealed=True)
    assert made.lock().repos[0].shared is None
    assert b"shared" not in format_lock(made.lock())


def test_the_dockerfile_adds_what_is_shared_first(tmp_path: Path) -> None:
    text = task(tmp_path, "one\n").task_build.dockerfile(sealed=False)
    lines = [line for line in text.splitlines() if "history" in line]
    assert lines == ["ADD inputs/shared-history-one.tar /", "ADD inputs/history-one.tar /"]


def test_a_lock_with_a_shared_pack_is_read_as_it_was_written(tmp_path: Path) -> None:
    lock = task(tmp_path, "one\n").lock()
    assert parse_lock(format_lock(lock)) == lock
    assert lock.repos[0].shared is not None


def test_an_audit_of_both_packs_finds_nothing_and_of_a_foreign_one_its_commit(tmp_path: Path) -> None:
    made = task(tmp_path / "a", "one\n")
    build = made.task_build
    found = read_image(build.store, ImageRecord(build.image(build.environment()).manifest))
    secrets = derive_task_secrets(build.recipe, build.lock, store=build.store, repositories=build.repositories)

    def audited(base: str) -> set[str]:
        bases = {b"workspace/one": base}
        rows = audit_image(
            found.tars(build.store),
            found.config_bytes,
            found.annotations,
            replace(secrets, bases=bases),
            trusted_layers=trusted_layers(build.recipe),
        )
        return {str(row.kind) for row in rows}

    shared = build.lock.repos[0].shared
    assert shared is not None
    assert audited(build.lock.repos[0].commit) == set()
    assert "commit" in str(sorted(audited(shared.commit)))
