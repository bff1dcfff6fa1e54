"""What replaying recorded fetches costs: pip and npm through our proxy, beside the same client on a plain static index.

    python -m tests.bench.bench_replay [--rounds 9] [--packages 60] [--size 400000] [--folder DIR]

Packages are made up (random bytes, so that nothing compresses away), each of so many bytes, and installed from an empty
cache into an empty folder each time, turn about. The plain index is a folder of static pages behind Python's own
http.server; the replay is a lock's fetches in a store behind the proxy that a sandbox sees, which hashes each blob once
and renders index pages. `--threads` of http.server serve both the same way; npm is left out where there is none.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import functools
import hashlib
import http.server
import io
import json
import os
import random
import shutil
import socket
import statistics
import sys
import tarfile
import tempfile
import threading
import time
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from packager.base.digests import Digest, digest_of
from packager.base.processes import Surroundings, find_program, run_ok
from packager.lock.model import LockedBlob, LockedFetch
from packager.lock.replay import Replay
from packager.sandbox.authority import Authority
from packager.sandbox.proxy import Proxy
from packager.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
