"""Questions about many readings."""

import pytest

from tidewatch import Reading, highest


def test_the_highest_reading_is_found() -> None:
    low, high = Reading("HB1", "a", 1.0), Reading("HB2", "b", 2.0)
    assert highest([high, low]) == high


def test_the_earlier_of_two_equal_ones_counts() -> None:
    first, second = Reading("HB1", "a", 2.0), Reading("HB1", "b", 2.0)
    assert highest([second, first]) == first


def test_without_readings_there_is_no_highest() -> None:
    with pytest.raises(ValueError):
        highest([])
