"""Downloads by curl, recorded and replayed: the lock names no host, and what is there afterwards neither."""

from __future__ import annotations

import gzip
import hashlib
from typing import TYPE_CHECKING

import pytest

from packager.sandbox.namespaces import may_mount
from tests.support.artifacts import make_tar
from tests.support.client_walk import Project, needs, walk
from tests.support.small_registry import SmallRegistry

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.engine, pytest.mark.skipif(not may_mount(), reason="needs root: the sandbox mounts")]


COMMAND = "curl -fsS -o tool 'http://files.example/tool.bin?a=b' && ! curl -fsS http://files.example/none"


@pytest.mark.shows("plain downloads", "records", "replays offline")
def test_curl_downloads_are_recorded_and_replayed(tmp_path: Path) -> None:
    needs("curl")
    with SmallRegistry({"/tool.bin?a=b": b"a tool\n"}) as registry:
        done = walk(tmp_path, Project(COMMAND, variables={"http_proxy": registry.url}))
        assert registry.asked == ["/tool.bin?a=b", "/none"] * 2
    assert done.files == {"work": b"", "work/tool": b"a tool\n"}
    assert done.purls == ["pkg:generic/tool.bin"]
    assert [row.alias for row in done.recording.absent] == ["web"]
    assert done.never("files.example")


TOOLCHAIN = gzip.compress(
    make_tar({"tool-1.0/bin/tool": b"#!/bin/sh\necho it runs\n"}, executable=("tool-1.0/bin/tool",)), mtime=0
)
INSTALLER = b"""\
set -e
curl -fsSO http://files.example/dist/tool-1.0.tar.gz
curl -fsS http://files.example/dist/tool-1.0.tar.gz.sha256 | sha256sum --check --quiet
mkdir -p /opt/tool
tar -xzf tool-1.0.tar.gz -C /opt/tool --strip-components 1 --no-same-owner
rm tool-1.0.tar.gz
/opt/tool/bin/tool > said
"""


def test_a_script_from_the_web_installs_an_archive_whose_hash_lies_beside_it(tmp_path: Path) -> None:
    needs("curl")
    files = {
        "/install.sh": INSTALLER,
        "/dist/tool-1.0.tar.gz": TOOLCHAIN,
        "/dist/tool-1.0.tar.gz.sha256": f"{hashlib.sha256(TOOLCHAIN).hexdigest()}  tool-1.0.tar.gz\n".encode(),
    }
    with SmallRegistry(files) as registry:
        # A name such as a distribution's is looked up in the index of Python packages, which does not have it.
        known = {"http_proxy": registry.url, "WIDESWE_REGISTRY_PYPI": "http://pypi.example/simple"}
        done = walk(tmp_path, Project("curl -fsS http://files.example/install.sh | sh", variables=known))
    assert done.files["work/said"] == b"it runs\n"
    assert sorted(done.files) == ["opt", "opt/tool", "opt/tool/bin", "opt/tool/bin/tool", "work", "work/said"]
    assert done.purls == [f"pkg:generic/{name}" for name in ("install.sh", "tool-1.0.tar.gz", "tool-1.0.tar.gz.sha256")]
    assert done.never("files.example")


def test_nothing_of_the_authority_of_a_run_is_in_a_layer(tmp_path: Path) -> None:
    needs("curl")
    command = (
        "curl -sS -o /dev/null -w '%{ssl_verify_result}' https://crates.invalid/none > trusted; "
        "env | grep -c ca.pem > counted; ls -l $SSL_CERT_FILE | wc -l > there"
    )
    done = walk(tmp_path, Project(command))  # an alias host answers this by itself, also over TLS
    assert (done.files["work/trusted"], done.files["work/there"]) == (b"0", b"1\n")
    assert int(done.files["work/counted"]) > 5
    assert [name for name, data in done.files.items() if b"BEGIN CERTIFICATE" in data or b"3128" in data] == []
    assert [name for name in done.files if "wideswe" in name or name.endswith(".pem")] == []
