"""What carries images: push, pull, mirror, bundles for machines without network, load into local engines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from packager.cli.place import Options, chosen_tasks, stored_tasks, task_options
from packager.cli.screen import progress_on_screen, show
from packager.cli.trust import trust_of, trust_options

if TYPE_CHECKING:
    from packager.registry.bundle import DockerLayers
    from packager.registry.load import EngineName

_TASKS = click.option("--task", "tasks", multiple=True, metavar="ID", help="The task; repeats.")
_ALL = click.option("--all", "every", is_flag=True, help="Every image in the store.")
_PLAIN_HTTP = click.option(
    "--plain-http", multiple=True, metavar="HOST", help="Speak plain http to this registry (host:port); repeats."
)


@click.command("push", epilog="Example: wideswe-pack push --task hello-wide-001 --to localhost:5000/wideswe")
@task_options
@click.option("--to", "namespace", required=True, metavar="REGISTRY/NAMESPACE", help="Where to push.")
@click.option("--version", "version", default="v1", show_default=True, help="The tag.")
@_PLAIN_HTTP
@click.pass_obj
def push_command(
    options: Options, tasks: tuple[str, ...], *, every: bool, namespace: str, version: str, plain_http: tuple[str, ...]
) -> None:
    """Push images with their signatures and grants to a registry.

    Over https, and over plain http only to localhost, a loopback address or a registry named with --plain-http;
    credentials are those of docker login. Layers that a neighbour of the namespace has are mounted, not sent.
    """
    from packager import api
    from packager.base.progress import Overall

    chosen = chosen_tasks(options, tasks, every=every)
    with progress_on_screen(options) as progress:
        told = Overall.over(progress, "push", len(chosen))
        for task in chosen:
            pushed = api.push(options.place(plain_http), task, namespace=namespace, version=version, progress=told)
            show(options, pushed, f"{task}: {pushed.reference}@{pushed.manifest}")


@click.command("pull", epilog="Example: wideswe-pack pull localhost:5000/wideswe/hello-wide-001:v1")
@click.argument("references", nargs=-1, required=True)
@click.option(
    "--offline", is_flag=True, help="Ask no registry: what was pulled under this name before, if it is whole."
)
@_PLAIN_HTTP
@click.pass_obj
def pull_command(options: Options, references: tuple[str, ...], *, offline: bool, plain_http: tuple[str, ...]) -> None:
    """Pull images with their signatures and grants; every byte is checked while it is read.

    The repository may have any name: the image itself says which task it is.
    """
    from packager import api
    from packager.base.progress import Overall

    with progress_on_screen(options) as progress:
        told = Overall.over(progress, "pull", len(references))
        for reference in references:
            pulled = api.pull(options.place(plain_http), reference, offline=offline, progress=told)
            show(options, pulled, f"{pulled.task}: {pulled.reference}@{pulled.manifest}")


@click.command(
    "mirror", epilog="Example: wideswe-pack mirror registry.example.org/wideswe localhost:5000/wideswe --task ID"
)
@click.argument("source")
@click.argument("target")
@_TASKS
@click.option("--version", "version", default="v1", show_default=True, help="The tag of the tasks.")
@_PLAIN_HTTP
@click.pass_obj
def mirror_command(
    options: Options, source: str, target: str, tasks: tuple[str, ...], *, version: str, plain_http: tuple[str, ...]
) -> None:
    """Copy images with signatures, attestations and grants from registry to registry; digests stay the same.

    With --task, SOURCE and TARGET are namespaces; without, references of one image. What is there does not move.
    Exit codes: 0 all is there; 4 a blob is not what its digest says; 6 a registry failed: the same command goes on.
    """
    from packager import api

    pairs = api.mirror_pairs(source, target, tasks, version=version)
    with progress_on_screen(options) as progress:
        for copied in api.mirror(options.place(plain_http), pairs, progress=progress):
            moved = f"{copied.moved} of {copied.blobs} blobs moved, {copied.moved_bytes} bytes"
            show(options, copied, f"{copied.reference}@{copied.manifest}: {moved}")


@click.group("bundle", epilog="Example: wideswe-pack bundle export --task hello-wide-001 --into suite.tar")
def bundle_command() -> None:
    """Carry images in one file, for machines without network: bundle export, bundle import."""


@bundle_command.command("export", epilog="Example: wideswe-pack bundle export --all --into suite.tar")
@_TASKS
@_ALL
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
        chosen = stored_tasks(api.images_in(place), tasks, every=every)
        done = api.export_bundle(
            place, chosen, target.absolute(), form=api.BundleForm(since, docker_layers), progress=progress
        )
    left = f", {done.left_out_bytes} bytes left to {since}" if since else ""
    show(options, done, f"{target}: {done.images} images, {done.blobs} blobs, {done.size_bytes} bytes{left}")


@bundle_command.command("import", epilog="Example: wideswe-pack bundle import suite.tar")
@click.argument("source", type=click.Path(path_type=Path, exists=True))
@click.pass_obj
def import_command(options: Options, source: Path) -> None:
    """Take a bundle (the file, or a folder that it was unpacked into) into the store; every blob is hashed.

    Nothing is named before all of it is good; then verify the tasks. Exit codes: 0 all is in the store; 3 the bundle is
    not one, or lacks something; 4 bytes are not what their digest says.
    """
    from packager import api

    with progress_on_screen(options) as progress:
        for shipped in api.import_bundle(options.place(), source.absolute(), progress=progress):
            show(options, shipped, f"{shipped.task}: {shipped.reference}@{shipped.manifest}")


@click.command("load", epilog="Example: wideswe-pack load --task hello-wide-001 --engine podman")
@_TASKS
@_ALL
@click.option("--engine", required=True, type=click.Choice(["docker", "podman"]), help="Whose daemon or storage.")
@click.option(
    "--key",
    "public_keys",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False),
    help="Trusted public key (default: release.pub in the keys folder); repeats.",
)
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
