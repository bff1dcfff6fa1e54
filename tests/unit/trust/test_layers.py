"""A layer is measured in one pass, within a bound that no document sets."""

from __future__ import annotations

import gzip
import hashlib
import io
from typing import IO, TYPE_CHECKING

import pytest
import zstandard

from packager.base.digests import digest_of
from packager.base.errors import IntegrityError
from packager.oci.descriptor import Descriptor, describe
from packager.oci.manifest import MEDIA_LAYER_GZIP, MEDIA_LAYER_TAR, MEDIA_LAYER_ZSTD
from packager.trust.layers import measure_layer

if TYPE_CHECKING:
    from packager.base.digests import Digest

PLAIN = bytes(range(256)) * 20_000


class CountingSource:
    """Blobs in memory that remember how much of them was read."""

    def __init__(self, *blobs: bytes) -> None:
        self._blobs = {digest_of(blob): blob for blob in blobs}
        self.read_bytes = 0

    def open(self, digest: Digest, /) -> IO[bytes]:
        source = self

        class Stream(io.BytesIO):
            def read(self, size: int | None = -1, /) -> bytes:
                block = super().read(size)
                source.read_bytes += len(block)
                return block

        return Stream(self._blobs[digest])


def measured(data: bytes, media_type: str, *, limit: int = 1 << 30) -> tuple[str, int]:
    found = measure_layer(CountingSource(data), describe(media_type, data), limit_bytes=limit)
    return found.diff_id, found.diff_size


PACKED = {
    MEDIA_LAYER_TAR: PLAIN,
    MEDIA_LAYER_GZIP: gzip.compress(PLAIN[:1000]) + gzip.compress(PLAIN[1000:]),
    MEDIA_LAYER_ZSTD: zstandard.compress(PLAIN[:1000]) + zstandard.compress(PLAIN[1000:]),
}


@pytest.mark.parametrize("media_type", PACKED)
def test_the_diff_id_is_that_of_all_frames(media_type: str) -> None:
    assert measured(PACKED[media_type], media_type) == (f"sha256:{hashlib.sha256(PLAIN).hexdigest()}", len(PLAIN))


@pytest.mark.parametrize("media_type", PACKED)
def test_a_bomb_stops_at_the_bound_whatever_documents_say(media_type: str) -> None:
    data = PACKED[media_type]
    with pytest.raises(IntegrityError) as caught:
        measured(data, media_type, limit=len(PLAIN) - 1)
    assert str(caught.value) == f"{digest_of(data)}: unpacks to more than {len(PLAIN) - 1} bytes"
    assert measured(data, media_type, limit=len(PLAIN))[1] == len(PLAIN)


def test_a_bomb_is_not_read_to_its_end() -> None:
    bomb = zstandard.compress(bytes(1 << 22)) * 40_000
    source = CountingSource(bomb)
    with pytest.raises(IntegrityError, match="unpacks to more than 67108864 bytes"):
        measure_layer(source, describe(MEDIA_LAYER_ZSTD, bomb), limit_bytes=64 << 20)
    assert source.read_bytes <= 1 << 20 < len(bomb)


def test_bytes_after_the_last_frame_are_refused() -> None:
    data = PACKED[MEDIA_LAYER_ZSTD] + b"more"
    with pytest.raises(IntegrityError, match="does not decompress: "):
        measured(data, MEDIA_LAYER_ZSTD)
    data = PACKED[MEDIA_LAYER_GZIP] + b"more"
    with pytest.raises(IntegrityError, match="does not decompress: Not a gzipped file"):
        measured(data, MEDIA_LAYER_GZIP)


def test_a_cut_gzip_layer_is_refused() -> None:
    data = PACKED[MEDIA_LAYER_GZIP][:-4]
    with pytest.raises(IntegrityError, match="does not decompress: Compressed file ended"):
        measured(data, MEDIA_LAYER_GZIP)


def test_a_window_larger_than_ours_is_refused() -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=28, write_content_size=False)
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    data = compressor.compress(b"x") + compressor.flush()
    assert zstandard.get_frame_parameters(data).window_size == 1 << 28
    with pytest.raises(IntegrityError, match=r"does not decompress: .*too much memory"):
        measured(data, MEDIA_LAYER_ZSTD)


@pytest.mark.parametrize("change", [-1, 1])
def test_the_size_is_checked_beside_the_digest(change: int) -> None:
    data = PACKED[MEDIA_LAYER_ZSTD]
    wrong = Descriptor(MEDIA_LAYER_ZSTD, digest_of(data), len(data) + change)
    with pytest.raises(IntegrityError) as caught:
        measure_layer(CountingSource(data), wrong)
    found = "more" if change < 0 else str(len(data))
    assert str(caught.value) == f"{digest_of(data)}: expected {len(data) + change} bytes, found {found}"
