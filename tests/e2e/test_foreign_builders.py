"""A small context built by stock builders and by us: `inspect --content-id` of what they save is what we build."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from packager.base.digests import digest_of_file
from packager.base.processes import Surroundings, find_program, run_ok
from packager.build.assemble import assemble_image
from packager.build.dockerfile import parse_dockerfile
from packager.build.execute import Builder, Input
from packager.build.foreign import Recognised, recognise_archive
from packager.lock.bootstrap import MOUNT_POINTS
from packager.oci.entries import Entry, dir_entry, file_entry, symlink_entry
from packager.oci.tar_writer import write_tar
from packager.sandbox.namespaces import may_mount
from packager.sandbox.native import NativeEngine, prepare_process
from packager.store.store import Store
from tests.support.docker_daemon import docker_daemon
from tests.support.tiny_base import tiny_entries

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.engine, pytest.mark.skipif(not may_mount(), reason="needs root")]

PROGRAMS = ("sh", "cat", "chmod", "chown", "ln", "ls", "mkdir", "mv", "rm", "rmdir", "touch")
DOCKERFILE = """\
FROM scratch AS bootstrap
ENV PATH=/usr/bin HOME=/root
ADD inputs/base.tar /
# step: bootstrap
RUN mkdir /opt /srv && chown 7:8 /srv && chmod 2775 /srv && echo 1 >/srv/old && ln /srv/old /opt/twin && echo t >/tmp/t && mkdir /var/log

FROM scratch
COPY --from=bootstrap / /
ADD inputs/mountpoints.tar /
ENV PATH=/usr/bin HOME=/root TZ=UTC
# step: wild
RUN cd /opt && echo a >z && chown 42:43 z && chmod 6755 z && ln z b && ln -s b c && mkdir -m 1777 d && touch d/.hidden
RUN rm -r /srv && mkdir /srv && echo n >/srv/new && mv /etc/moved /etc/there && rm -r /etc/whole && echo f >/etc/whole
RUN echo same >/etc/same2 && mv /etc/same2 /etc/same && echo x >/etc/empty && rm /etc/empty && ls /usr/bin >/tmp/list
RUN mkdir -p /etc/alt && rm -r /etc/alt && chmod 700 /opt/d && echo log >/var/log/x && mv /usr/share/deep /opt/deep
ADD inputs/manifests-repo.tar /
RUN cat /workspace/repo/f >/opt/f
ADD inputs/history-repo.tar /
ADD inputs/target-repo.tar /
RUN ls /workspace/repo >/workspace/repo/list
ADD inputs/task.tar /
WORKDIR /workspace
CMD ["/bin/sh"]
"""


def inputs() -> dict[str, list[Entry]]:
    extra = [
        file_entry(b"etc/moved", b"m"),
        file_entry(b"etc/same", b"same\n"),
        file_entry(b"etc/whole/a/b", b"w"),
        file_entry(b"usr/share/deep/er/f", b"d"),
        dir_entry(b"var"),
    ]
    return {
        "base": [*tiny_entries(PROGRAMS), *extra],
        "mountpoints": [file_entry(path, b"") for path in MOUNT_POINTS],
        "manifests-repo": [file_entry(b"workspace/repo/f", b"f", mode=0o755)],
        "history-repo": [dir_entry(b"workspace/repo/.git/refs"), file_entry(b"workspace/repo/.git/HEAD", b"x")],
        "target-repo": [file_entry(b"workspace/repo/f", b"f", mode=0o755), symlink_entry(b"workspace/repo/l", b"f")],
        "task": [file_entry(b"opt/wideswe/task.json", b'{"task":"made-001"}')],
    }


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("context")
    (folder / "inputs").mkdir()
    for name, entries in inputs().items():
        with (folder / f"inputs/{name}.tar").open("wb") as out:
            write_tar(entries, out.write)
    (folder / "Dockerfile").write_text(DOCKERFILE)
    return folder


def _input(context: Path, name: str) -> Input:
    spec = {"digest": digest_of_file(context / f"inputs/{name}.tar")}
    return Input(spec, lambda _: inputs()[name])


@pytest.fixture(scope="module")
def ours(context: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, tuple[str, ...]]:
    prepare_process()
    store = Store(tmp_path_factory.mktemp("store"))
    given = {f"inputs/{name}.tar": _input(context, name) for name in inputs()}
    stage = Builder(store, NativeEngine(), given).build(parse_dockerfile(DOCKERFILE))
    image = assemble_image(stage, store, task="made-001", platform="linux/amd64")
    return image.content_id, tuple(layer.diff_id for layer in stage.layers)


@pytest.fixture(
    scope="module", params=["old", *(pytest.param(name, marks=pytest.mark.slow) for name in ("newer", "containerd"))]
)
def daemon(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "old":
        opened = docker_daemon()
    else:
        opened = docker_daemon(newer=True, containerd_store=request.param == "containerd")
    with opened as host:
        yield host


def read(archive: Path) -> Recognised:
    return recognise_archive(archive, lambda *_: None)


def same(found: Recognised, ours: tuple[str, tuple[str, ...]]) -> None:
    assert found.diff_ids == ours[1]
    assert (found.task, found.content_id) == ("made-001", ours[0])


@pytest.mark.parametrize("buildkit", ["0", "1"], ids=["classic", "BuildKit"])
def test_docker_builds_what_we_build(
    daemon: str, context: Path, ours: tuple[str, tuple[str, ...]], tmp_path: Path, buildkit: str
) -> None:
    client = next((path for path in ("/usr/bin/docker", shutil.which("docker") or "") if Path(path).is_file()), None)
    if client is None:
        pytest.skip("no docker client")
    env = {**os.environ, "DOCKER_HOST": daemon, "DOCKER_BUILDKIT": buildkit, "HOME": str(tmp_path)}
    around = Surroundings(env=env, timeout_s=300)
    run_ok([client, "build", "--network", "none", "--tag", "made:1", str(context)], around)
    run_ok([client, "save", "--output", str(tmp_path / "made.tar"), "made:1"], around)
    run_ok([client, "rmi", "--force", "made:1"], around)
    same(read(tmp_path / "made.tar"), ours)


@pytest.mark.parametrize("form", ["oci-archive", "docker-archive"])
def test_buildah_builds_what_we_build(
    context: Path, ours: tuple[str, tuple[str, ...]], tmp_path: Path, form: str
) -> None:
    if find_program("buildah") is None or find_program("runc") is None:
        pytest.skip("no buildah with runc")
    places = ["--root", str(tmp_path / "root"), "--runroot", str(tmp_path / "run"), "--storage-driver", "overlay"]
    around = Surroundings(timeout_s=300)
    words = ["bud", "--layers", "--pull-never", "--network", "none", "--isolation", "oci", "--runtime", "runc"]
    with contextlib.ExitStack() as held:
        held.callback(lambda: run_ok(["buildah", *places, "rmi", "--all", "--force"], around))
        run_ok(["buildah", *places, *words, "--tag", "localhost/made:1", str(context)], around)
        run_ok(["buildah", *places, "push", "--quiet", "localhost/made:1", f"{form}:{tmp_path}/made.tar"], around)
    same(read(tmp_path / "made.tar"), ours)
