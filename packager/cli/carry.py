"""What carries images between registries and stores: push, pull, index, mirror."""

from __future__ import annotations

import click

from packager.base.errors import UsageError
from packager.cli.place import Options, chosen_tasks, task_options
from packager.cli.screen import progress_on_screen, show
from packager.cli.trust import trust_of, trust_options

_TASKS = click.option("--task", "tasks", multiple=True, metavar="ID", help="The task; repeats.")
_PLAIN_HTTP = click.option(
    "--plain-http", multiple=True, metavar="HOST", help="Speak plain http to this registry (host:port); repeats."
)


@click.command("push", epilog="Example: wideswe-pack push --task hello-wide-001 --to localhost:5000/wideswe")
@task_options
@click.option("--to", "namespace", required=True, metavar="REGISTRY/NAMESPACE", help="Where to push.")
@click.option("--version", "version", default="v1", show_default=True, help="The tag.")
@click.option("--by-digest", is_flag=True, help="Without a tag: for images that `index` will name.")
@_PLAIN_HTTP
@click.pass_obj
def push_command(
    options: Options,
    tasks: tuple[str, ...],
    *,
    every: bool,
    namespace: str,
    version: str,
    by_digest: bool,
    plain_http: tuple[str, ...],
) -> None:
    """Push images with their signatures and grants to a registry.

    Over https, and over plain http only to localhost, a loopback address or a registry named with --plain-http;
    credentials are those of docker login, else of podman login. Layers that a neighbour of the namespace has are
    mounted, not sent.
    """
    from packager import api
    from packager.base.progress import Overall

    chosen = chosen_tasks(options, tasks, every=every)
    with progress_on_screen(options) as progress:
        told = Overall.over(progress, "push", len(chosen))
        for task in chosen:
            tag = None if by_digest else version
            pushed = api.push(options.place(plain_http), task, namespace=namespace, version=tag, progress=told)
            show(options, pushed, f"{task}: {pushed.reference}@{pushed.manifest}")


@click.command("pull", epilog="Example: wideswe-pack pull localhost:5000/wideswe/hello-wide-001:v1")
@click.argument("references", nargs=-1, required=True)
@click.option(
    "--offline", is_flag=True, help="Ask no registry: what was pulled under this name before, if it is whole."
)
@click.option("--platform", default=None, help="Which image of an index (default: this machine's platform).")
@_PLAIN_HTTP
@click.pass_obj
def pull_command(
    options: Options,
    references: tuple[str, ...],
    *,
    offline: bool,
    platform: str | None,
    plain_http: tuple[str, ...],
) -> None:
    """Pull images with their signatures and grants; every byte is checked while it is read.

    The repository may have any name: the image itself says which task it is.
    """
    from packager import api
    from packager.base.progress import Overall

    with progress_on_screen(options) as progress:
        told = Overall.over(progress, "pull", len(references))
        for reference in references:
            place = options.place(plain_http)
            pulled = api.pull(place, reference, offline=offline, platform=platform, progress=told)
            show(options, pulled, f"{pulled.task}: {pulled.reference}@{pulled.manifest}")


@click.command("index", epilog="Example: wideswe-pack index localhost:5000/wideswe/ID:v1 sha256:… sha256:…")
@click.argument("reference")
@click.argument("images", nargs=-1, required=True)
@_PLAIN_HTTP
@click.pass_obj
def index_command(options: Options, reference: str, images: tuple[str, ...], *, plain_http: tuple[str, ...]) -> None:
    """Give images of one task for several platforms one name: an index, signed as each of them is.

    IMAGES are digests of what was pushed to the same repository (push --by-digest), signed with the release key under
    this task and version. Whoever pulls REFERENCE gets the image for his platform.
    Exit codes: 0 the index is there; 3 images that do not go together; 5 one that our key has not signed; 6 the
    registry failed: the same command goes on.
    """
    from packager import api

    with progress_on_screen(options) as progress:
        made = api.join_platforms(options.place(plain_http), reference, images, progress=progress)
    rows = (f"  {platform} {digest}" for platform, digest in made.platforms.items())
    show(options, made, "\n".join((f"{made.reference}@{made.manifest}", *rows)))


@click.command(
    "mirror", epilog="Example: wideswe-pack mirror registry.example.org/wideswe localhost:5000/wideswe --task ID"
)
@click.argument("source")
@click.argument("target")
@_TASKS
@click.option("--version", "version", default="v1", show_default=True, help="The tag of the tasks.")
@_PLAIN_HTTP
@trust_options
@click.pass_obj
def mirror_command(
    options: Options,
    /,
    source: str,
    target: str,
    tasks: tuple[str, ...],
    *,
    version: str,
    plain_http: tuple[str, ...],
    **given: object,
) -> None:
    """Copy images with signatures, attestations and grants from registry to registry; digests stay the same.

    With --suite, SOURCE and TARGET are namespaces: the suite is copied with all images that its current version lists.
    With --task, too, for single tasks. Without either they are references of one image. What is there does not move.
    Exit codes: 0 all is there; 4 a blob is not what its digest says; 5 the suite is not to be believed; 6 a registry
    failed: the same command goes on.
    """
    from packager import api

    place = options.place(plain_http)
    trust = trust_of(given)
    if trust.suite and tasks:
        raise UsageError("--task and --suite exclude each other")
    with progress_on_screen(options) as progress:
        if trust.suite:
            found = api.mirror_suite(place, (source, target), trust.suite, trust=trust, progress=progress)
        else:
            found = api.mirror(place, api.mirror_pairs(source, target, tasks, version=version), progress=progress)
        for copied in found:
            moved = f"{copied.moved} of {copied.blobs} blobs moved, {copied.moved_bytes} bytes"
            show(options, copied, f"{copied.reference}@{copied.manifest}: {moved}")
