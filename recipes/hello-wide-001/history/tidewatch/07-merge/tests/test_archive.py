"""Records that were kept."""

from tidewatch.archive import read_archive


def test_an_archive_is_read(tmp_path) -> None:
    kept = tmp_path / "2023.tsv"
    kept.write_text("HB1\ta\t1.0\n")
    assert [reading.height for reading in read_archive(kept)] == [1.0]
