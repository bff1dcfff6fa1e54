"""Suites that are locked against the real registries and then built from their locks alone."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from packager import api
from packager.sandbox.engine import Command
from packager.store.scratch import scratch_folder
from tests.support.host_tree import run_captured
from tests.support.suites import Sample, Suite, make_suite

if TYPE_CHECKING:
    from packager.build.execute import Builder, Stage


def given_inputs() -> tuple[Path, ...]:
    """Return folders of blobs that spare downloads, from the environment variable WIDESWE_TEST_INPUTS."""
    return tuple(Path(text) for text in os.environ.get("WIDESWE_TEST_INPUTS", "").split(os.pathsep) if text)


class SuitePlace:
    """Where a test makes its suite."""

    def __init__(self, folder: Path, store_root: Path) -> None:
        self.folder = folder
        self.store_root = store_root

    def suite(self, sample: Sample) -> Suite:
        """Make a suite in the shared store."""
        return make_suite(self.folder, sample, store=self.store_root, inputs=given_inputs())


def lock_and_build(suite: Suite) -> Stage:
    """Lock a task, hold the lock against itself, and build it once more from the lock alone, asking for nothing else."""
    assert api.lock(suite.place, suite.task).changes == ("new",)
    assert api.check_lock(suite.place, suite.task).changes == ()
    task_build = suite.task_build()
    instructions = task_build.instructions(sealed=False)
    builder = task_build.builder()
    stage = replace(builder, fresh=frozenset(builder.fetches)).build(instructions)
    assert [found.refused() for found in builder.fetches.values()] == [()] * len(builder.fetches)
    assert task_build.environment() == stage
    return stage


def said(builder: Builder, stage: Stage, script: str) -> str:
    """Return what a command says in a built environment."""
    layers = [builder.tree(layer) for layer in stage.layers]
    with scratch_folder(builder.store.root) as scratch, builder.engine.open_tree(layers, scratch=scratch) as tree:
        ended, out, err = run_captured(tree, Command(("/bin/sh", "-c", script), env=dict(stage.env), cwd="/workspace"))
    assert (ended.exit_code, err) == (0, "")
    return out


def purls(suite: Suite) -> dict[str, str]:
    """Return origin by package URL of all fetches."""
    return {fetch.purl: fetch.origin for fetch in suite.lock().fetches}
