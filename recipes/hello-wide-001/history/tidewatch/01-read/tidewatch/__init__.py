"""Watches the tide: reads what water gauges recorded."""

from tidewatch.producer import GaugeError, producer_module, read_station
from tidewatch.reading import Reading, parse_record

__all__ = ["GaugeError", "Reading", "parse_record", "producer_module", "read_station"]
