"""An image whose test command tells the time: a task's own layers under a new seal, signed with keys of the bench."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from packager import api
from packager.api.place import ROOT_SECRET, SUITE
from packager.evaluate.judge import read_image
from packager.evaluate.profile import Profile, TargetProfile, format_profile
from packager.oci.config import format_config
from packager.oci.descriptor import describe
from packager.oci.entries import file_entry
from packager.oci.layer import write_layer
from packager.oci.manifest import MEDIA_CONFIG, MEDIA_MANIFEST, Manifest, format_manifest
from packager.oci.places import SEALED_PATH, TASK_LABEL
from packager.oci.record import ImageRecord, format_record
from packager.sandbox.engine import Limits
from packager.seal.bundle import SealContents, seal
from packager.seal.identities import read_root

if TYPE_CHECKING:
    from packager.recipe.model import Recipe

CLOCK_TASK = "bench-clock-001"
SAY_TIME = "date +%s%N"


def make_clock_image(place: api.Place, recipe: Recipe) -> None:
    """Put the image under CLOCK_TASK into the place's store, signed and granted to its evaluator."""
    store = place.store()
    image = read_image(store, place.record(recipe.id))
    target = recipe.targets[0].name
    sealed = seal(_contents(target), read_root(place.keys / ROOT_SECRET))
    layer = write_layer([file_entry(SEALED_PATH, sealed)], store)
    labels = {**image.config.labels, TASK_LABEL: CLOCK_TASK}
    config = format_config(replace(image.config, labels=labels, diff_ids=(*image.config.diff_ids[:-1], layer.diff_id)))
    store.put(config)
    layers = (*image.layers[:-1], layer.descriptor())
    manifest = format_manifest(Manifest(describe(MEDIA_CONFIG, config), layers))
    store.put(manifest)
    store.set_name("images", CLOCK_TASK, format_record(ImageRecord(describe(MEDIA_MANIFEST, manifest))))
    api.sign(place, CLOCK_TASK, home="bench.invalid/bench")


def _contents(target: str) -> SealContents:
    profile = TargetProfile(
        name=target,
        prepare="",
        run=SAY_TIME,
        workdir=".",
        results="tap",
        report="stdout",
        timeout_s=60.0,
        env=(),
        protect=(),
    )
    return SealContents(
        SUITE,
        CLOCK_TASK,
        "v1",
        gold={target: b""},
        hidden={target: {}},
        expected={target: {"FAIL_TO_PASS": ["a"], "PASS_TO_PASS": []}},
        profile=format_profile(Profile(CLOCK_TASK, (profile,), Limits())),
    )
