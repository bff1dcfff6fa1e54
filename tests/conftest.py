"""What the whole run needs before its first test."""

from __future__ import annotations

from packager.sandbox.namespaces import may_mount, prepare_process

if may_mount():
    prepare_process()  # now, while this process has one thread: what tests mount then ends with the run
