"""Writes the changes of a tree to a folder in overlayfs form, for engines that do not keep them so."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING

from packager.oci.tar_writer import write_tar
from packager.oci.unpack import unpack_layer

if TYPE_CHECKING:
    from pathlib import Path

    from packager.oci.entries import Entry


def write_upper(entries: list[Entry], target: Path) -> Path:
    """Write entries into `target`, which is made here, as an unpacked layer; return it."""
    with tempfile.TemporaryFile(dir=target.parent) as stream:
        write_tar(entries, stream.write)
        stream.seek(0)
        target.mkdir(mode=0o755)
        unpack_layer(stream, target, overlay_whiteouts=True)
    return target
