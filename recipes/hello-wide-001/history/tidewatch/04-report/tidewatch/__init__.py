"""Watches the tide: reads what water gauges recorded, and answers questions about it."""

from tidewatch.producer import GaugeError, producer_module, read_station
from tidewatch.reading import Reading, parse_record
from tidewatch.tides import format_report, highest

__all__ = ["GaugeError", "Reading", "format_report", "highest", "parse_record", "producer_module", "read_station"]
