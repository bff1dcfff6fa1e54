from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.support.command_line import call

if TYPE_CHECKING:
    from pathlib import Path


def test_the_table_is_printed_for_people_and_for_machines(tmp_path: Path) -> None:
    said = call(tmp_path, "ecosystems")
    head, *lines = said.stdout.decode().splitlines()
    assert (said.exit_code, said.stderr) == (0, b"")
    assert head.split("  ")[0] == "CLIENT"
    assert ["plain", "downloads", "web", "yes", "yes", "-", "-"] in [line.split() for line in lines]
    rows = {line["row"]["client"]: line for line in json.loads(call(tmp_path, "--json", "ecosystems").stdout)}
    assert len(rows) == len(lines)
    assert rows["plain downloads"] == {
        "alias": "web",
        "row": {"client": "plain downloads", "note": "", "shown": ["records", "replays offline"]},
    }
