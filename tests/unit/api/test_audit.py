"""The audit verb over a small suite: an image that is clean, one that is not, and an answer that is out of reach."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from packager import api
from packager.base.digests import digest_of
from packager.base.errors import InputError, WorldError
from packager.build.assemble import assemble_image
from packager.build.audit import LeakKind
from packager.build.execute import Stage
from packager.cli.main import cli
from packager.lock.answers import read_answer
from packager.lock.model import Lock, LockedBase, format_lock
from packager.lock.repositories import lock_repositories
from packager.lock.resolve import current_ids
from packager.oci.entries import Entry, file_entry
from packager.oci.layer import write_layer
from packager.oci.record import ImageRecord, format_record
from packager.recipe.model import recipe_digest
from tests.support.small_suite import TASK, USER_PATCH, SmallSuite, make_suite

if TYPE_CHECKING:
    from pathlib import Path

    from packager.base.progress import Event
    from packager.lock.model import LockedFiles

pytestmark = pytest.mark.engine


@dataclass(frozen=True)
class Audits:
    suite: SmallSuite
    place: api.Place
    files: LockedFiles

    def image(self, *entries: Entry) -> None:
        """Put an image into the store: a base, the repositories as they are locked, and more entries on top."""
        lock = self.place.lock(TASK, "linux/amd64")
        repositories = self.suite.repositories()
        layers = [[file_entry(b"etc/base", b"base\n")]]
        for repo in lock.repos:
            found, prefix = repositories.locked(repo), f"workspace/{repo.name}".encode()
            layers.append([*found.tree_entries(prefix), *found.git_entries(prefix)])
        layers.append(list(entries) or [file_entry(b"opt/nothing", b"nothing\n")])
        stage = Stage(tuple(write_layer(layer, self.suite.store) for layer in layers))
        image = assemble_image(stage, self.suite.store, task=TASK, platform="linux/amd64")
        self.suite.store.set_name("images", TASK, format_record(ImageRecord(image.manifest)))

    def command_line(self, *words: str) -> tuple[int, str]:
        config = self.suite.root / "config.yaml"
        config.write_text(json.dumps({"mirrors": self.suite.mirrors}))
        places = ["--root", str(self.place.root), "--store", str(self.place.store_root), "--config", str(config)]
        done = CliRunner().invoke(cli, [*places, "--quiet", *words], standalone_mode=False)
        assert done.exception is None, done.exception
        return int(done.return_value), done.output


@pytest.fixture
def audits(tmp_path: Path) -> Audits:
    suite = make_suite(tmp_path)
    recipe, repositories = suite.recipe(), suite.repositories()
    files = read_answer(recipe, repositories).files(b"Make two.\n")
    lock = Lock(
        TASK,
        "linux/amd64",
        recipe_digest(recipe),
        digest_of(b"dockerfile"),
        LockedBase("bookworm", ()),
        files,
        ids=current_ids(),
        repos=lock_repositories(repositories, suite.store, targets=["maker", "user"]),
    )
    place = api.Place(suite.root, suite.store.root, tmp_path / "keys", mirrors=suite.mirrors)
    path = place.file(TASK, "linux/amd64", "lock")
    path.parent.mkdir()
    path.write_bytes(format_lock(lock))
    return Audits(suite, place, files)


def test_an_image_of_base_commits_is_clean_and_every_layer_is_counted(audits: Audits) -> None:
    audits.image()
    events: list[Event] = []
    found = api.audit(audits.place, TASK, progress=events.append)
    assert (found.task, found.layers, found.findings, found.clean) == (TASK, 5, (), True)
    assert found.manifest == audits.place.record(TASK).manifest.digest
    assert [(event.done, event.total) for event in events if event.total] == [(n, 5) for n in (1, 2, 3, 4, 5, 5)]
    assert events[-1].finished


def test_a_leak_makes_the_answer_no(audits: Audits) -> None:
    future = audits.suite.commits["maker_gold"]
    audits.image(file_entry(b"etc/motd", f"fixed by {future}\n".encode()))
    found = api.audit(audits.place, TASK)
    assert [(one.kind, one.where) for one in found.findings] == [(LeakKind.FUTURE_COMMIT, "layer 4: etc/motd")]
    assert not found.clean


def test_the_command_line_answers_in_words_in_json_and_by_exit_code(audits: Audits) -> None:
    audits.image()
    manifest = audits.place.record(TASK).manifest.digest
    assert audits.command_line("audit", "--task", TASK) == (0, f"{TASK}: nothing found in 5 layers of {manifest}\n")
    future = audits.suite.commits["maker_gold"]
    audits.image(file_entry(b"etc/motd", f"fixed by {future}\n".encode()))
    code, text = audits.command_line("audit", "--task", TASK)
    assert (code, text.splitlines()) == (
        1,
        [
            f"{TASK}: 1 found",
            "KIND           WHERE              DETAIL",
            f"future-commit  layer 4: etc/motd  future commit: '{future}'",
        ],
    )
    code, text = audits.command_line("--json", "audit", "--task", TASK)
    assert (code, json.loads(text)) == (
        1,
        {
            "task": TASK,
            "manifest": audits.place.record(TASK).manifest.digest,
            "layers": 5,
            "findings": [
                {"kind": "future-commit", "layer": 4, "path": "etc/motd", "detail": f"future commit: '{future}'"}
            ],
        },
    )


def test_an_image_that_is_not_there_is_no_clean_image(audits: Audits) -> None:
    with pytest.raises(InputError) as caught:
        api.audit(audits.place, TASK)
    assert str(caught.value) == (
        f"{TASK}: there is no image of this task in the store\n"
        f"hint: wideswe-pack build --task {TASK}, or wideswe-pack pull REFERENCE"
    )


def test_an_answer_out_of_reach_is_said_and_one_that_was_kept_is_not_asked_for(audits: Audits) -> None:
    audits.image()
    alone = replace(audits.place, mirrors={"https://git.invalid/": "/nowhere/"})
    with pytest.raises(WorldError) as caught:
        api.audit(alone, TASK)
    assert str(caught.value) == (
        "/nowhere/maker: expected a git repository (HEAD and objects, bare or in .git), found none\n"
        "hint: an audit compares the image with gold and hidden tests; "
        "correct the mirror setting, or fetch the mirror again"
    )
    assert api.audit(audits.place, TASK).clean
    assert api.audit(alone, TASK).clean
    assert audits.suite.store.read(audits.files.gold["user"], 1 << 20) == USER_PATCH
