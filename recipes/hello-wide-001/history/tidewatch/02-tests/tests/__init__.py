"""Tests of tidewatch: python -m pytest."""
