"""wideswe-pack: reproducible, signed, offline task images for cross-repository coding benchmarks."""

__version__ = "0.1.0"
