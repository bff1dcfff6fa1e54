from __future__ import annotations

import sys
from pathlib import Path

from packager.base.processes import Surroundings, run
from packager.sandbox.namespaces import map_arguments, parse_ranges

ROOT = Path(__file__).parents[3]
SUBUID = "root:1:2\nme:100000:65536\n1000:300000:10\nother:5:5\nme:x:1\nme:1\n\n# me:1:1\n"


def test_ranges_are_found_by_name_and_by_number() -> None:
    assert parse_ranges(SUBUID, name="me", number=1000) == [(100000, 65536), (300000, 10)]
    assert parse_ranges(SUBUID, name="nobody", number=65534) == []


def test_maps_begin_with_oneself_and_go_on_without_gaps() -> None:
    expected = ["0", "1000", "1", "1", "100000", "65536", "65537", "300000", "10"]
    assert map_arguments(1000, [(100000, 65536), (300000, 10)]) == expected


def test_a_process_with_threads_is_refused_with_the_reason() -> None:
    script = (
        "import threading, time; threading.Thread(target=time.sleep, args=(9,), daemon=True).start()\n"
        "from packager.base.errors import PackError\n"
        "from packager.sandbox.namespaces import prepare_process\n"
        "import sys\n"
        "try: prepare_process()\n"
        "except PackError as error: sys.stdout.write(str(error))\n"
    )
    done = run([sys.executable, "-c", script], Surroundings(cwd=ROOT))
    assert done.stdout.decode() == (
        "prepare_process: expected a process with one thread, found 2\n"
        "hint: call packager.sandbox.namespaces.prepare_process() first thing, before threads start"
    )
