"""Downloads by curl, recorded and replayed: the lock names no host, and what is there afterwards neither."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from packager.sandbox.namespaces import may_mount
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
