"""What serves machines without network: bundles in one file, and local engines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from packager.cli.place import Options, stored_tasks
from packager.cli.screen import progress_on_screen, show
from packager.cli.trust import key_option, trust_of, trust_options

if TYPE_CHECKING:
    from packager.registry.bundle import DockerLayers
    from packager.registry.load import EngineName

_TASKS = click.option("--task", "tasks", multiple=True, metavar="ID", help="The task; repeats.")
_ALL = click.option("--all", "every", is_flag=True, help="Every image in the store.")


@click.group("bundle", epilog="Example: wideswe-pack bundle export --task hello-wide-001 --into suite.tar")
def bundle_command() -> None:
    """Carry images in one file, for machines without network: bundle export, bundle import."""


@bundle_command.command("export", epilog="Example: wideswe-pack bundle export --all --into suite.tar")
@_TASKS
@_ALL
@click.option(
    "--suite", "suites", multiple=True, metavar="NAME", help="A suite with all images that it lists; repeats."
)
@click.option("--into", "target", required=True, type=click.Path(path_type=Path, dir_okay=False), help="The file.")
@click.option(
    "--since",
    type=click.Path(path_type=Path, exists=True),
    default=None,
    help="An earlier bundle: layers that are in it are left out, and it must be imported first.",
)
@click.option(
    "--docker-layers",
    type=click.Choice(["as-is", "gzip", "none"]),
    default="as-is",
    show_default=True,
    help="Add copies of the layers in this compression for docker load before 23, which cannot read zstd.",
)
@click.pass_obj
def export_command(
    options: Options,
    tasks: tuple[str, ...],
    suites: tuple[str, ...],
    *,
    every: bool,
    target: Path,
    since: Path | None,
    docker_layers: DockerLayers,
) -> None:
    """Write images with signatures, attestations and grants into one file, shared layers once.

    The file is an OCI layout in a tar with docker's manifest.json: bundle import, docker load, podman load and skopeo
    read it. The same images give the same bytes.
    Exit codes: 0 written; 3 no such image; 4 a blob of the store is broken.
    """
    from packager import api

    place = options.place()
    with progress_on_screen(options) as progress:
        chosen = () if suites and not tasks and not every else stored_tasks(api.images_in(place), tasks, every=every)
        cargo, form = api.Cargo(chosen, suites), api.BundleForm(since, docker_layers)
        done = api.export_bundle(place, cargo, target.absolute(), form=form, progress=progress)
    left = f", {done.left_out_bytes} bytes left to {since}" if since else ""
    show(options, done, f"{target}: {done.images} images, {done.blobs} blobs, {done.size_bytes} bytes{left}")


@bundle_command.command("import", epilog="Example: wideswe-pack bundle import suite.tar")
@click.argument("source", type=click.Path(path_type=Path, exists=True))
@trust_options
@click.pass_obj
def import_command(options: Options, /, source: Path, **given: object) -> None:
    """Take a bundle (the file, or a folder that it was unpacked into) into the store; every blob is hashed.

    Nothing is named before all of it is good; then verify the tasks. Exit codes: 0 all is in the store; 3 the bundle is
    not one, or lacks something; 4 bytes are not what their digest says; 5 a suite in it is not to be believed.
    """
    from packager import api

    with progress_on_screen(options) as progress:
        taken = api.import_bundle(options.place(), source.absolute(), trust=trust_of(given), progress=progress)
        for shipped in taken:
            show(options, shipped, f"{shipped.task}: {shipped.reference}@{shipped.manifest}")


@click.command("load", epilog="Example: wideswe-pack load --task hello-wide-001 --engine podman")
@_TASKS
@_ALL
@click.option("--engine", required=True, type=click.Choice(["docker", "podman"]), help="Whose daemon or storage.")
@key_option
@trust_options
@click.pass_obj
def load_command(
    options: Options, /, tasks: tuple[str, ...], *, every: bool, engine: EngineName, **given: object
) -> None:
    """Verify images, put them into a local engine, and prove by image id and diff ids that it holds the same ones.

    Exit codes: 0 the same image; 4 the engine holds another one, or bytes are wrong; 5 the image is not to be believed,
    nothing was loaded; 6 the engine is missing or failed.
    """
    from packager import api

    place = options.place()
    with progress_on_screen(options) as progress:
        for task in stored_tasks(api.images_in(place), tasks, every=every):
            loaded = api.load(place, task, engine=engine, trust=trust_of(given), progress=progress)
            show(options, loaded, f"{task}: {engine} holds {loaded.name} as {loaded.image_id}: {loaded.proof}")
