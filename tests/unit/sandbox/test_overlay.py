from __future__ import annotations

from pathlib import Path

import pytest

from packager.base.errors import WorldError
from packager.sandbox.overlay import check_layers, delete_tree


def test_layers_that_overlayfs_would_refuse_without_a_reason_are_named(tmp_path: Path) -> None:
    with pytest.raises(WorldError) as caught:
        check_layers([tmp_path, tmp_path / "gone"])
    assert str(caught.value) == f"overlayfs: no such layer directory: {tmp_path}/gone"
    with pytest.raises(WorldError) as caught:
        check_layers([Path("/")] * 501)
    assert str(caught.value) == "overlayfs: expected at most 500 layers, found 501"
    check_layers([])


def test_scratch_is_deleted_whatever_its_modes(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    (scratch / "w/work/deep").mkdir(parents=True)
    (scratch / "link").symlink_to(tmp_path)
    (scratch / "w/work").chmod(0)
    delete_tree(scratch)
    assert list(tmp_path.iterdir()) == []
