"""Carries a running command's output to its sinks, in one thread, until it ends or its time is up."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from packager.sandbox.usage import Watch

_BLOCK_BYTES = 1 << 16
_GRACE_S = 10.0


class Child(Protocol):
    """What this file needs of a started program."""

    pid: int

    def poll(self) -> int | None:
        """Return the exit code, None while it runs."""

    def send_signal(self, sig: int) -> None:
        """Send a signal, if it still runs."""


@dataclass
class Pump:
    """What is read from where. `sinks` gets blocks by descriptor; `once` is called when its descriptor is readable."""

    child: Child
    sinks: Mapping[int, Callable[[bytes], None]]
    once: Mapping[int, Callable[[], None]] = field(default_factory=dict)
    watch: Watch | None = None

    def run(self, deadline: float) -> bool:
        """Pump to the end; return whether the deadline (of the monotonic clock) or the watch ended it.

        However this is left, the command and all that it started are dead: its process namespace ended.
        """
        ended = os.pidfd_open(self.child.pid)
        try:
            with selectors.DefaultSelector() as selector:
                self._register(selector, ended)
                on_time = self._until_ended(selector, ended, deadline)
                if not on_time:
                    self.stop()
                self._drain(selector)
                return not on_time
        finally:
            self.stop()
            os.close(ended)

    def stop(self) -> None:
        """End the launcher, which first ends process 1 of the namespace and waits for it."""
        if self.child.poll() is not None:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            self.child.send_signal(number)
            with contextlib.suppress(TimeoutError):
                self._wait(_GRACE_S)
                return

    def _wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while self.child.poll() is None:
            if time.monotonic() > until:
                raise TimeoutError
            time.sleep(0.002)

    def _register(self, selector: selectors.BaseSelector, ended: int) -> None:
        selector.register(ended, selectors.EVENT_READ)
        for descriptor in self.sinks:
            os.set_blocking(descriptor, False)
            selector.register(descriptor, selectors.EVENT_READ, self.sinks[descriptor])
        for descriptor, call in self.once.items():
            selector.register(descriptor, selectors.EVENT_READ, call)

    def _until_ended(self, selector: selectors.BaseSelector, ended: int, deadline: float) -> bool:
        while True:
            left = deadline - time.monotonic()
            if self.watch is not None:
                left = min(left, self.watch.wait_s())
            if deadline <= time.monotonic() or (self.watch is not None and self.watch.is_over):
                return False
            ready = {key.fd for key, _ in selector.select(left)}
            for descriptor in ready & set(self.once):
                selector.unregister(descriptor)
                self.once[descriptor]()
            for descriptor in ready & set(self.sinks):
                if not self._carry(descriptor):
                    selector.unregister(descriptor)
            if ended in ready:
                return True

    def _carry(self, descriptor: int) -> bool:
        """Read one block; return whether there may be more."""
        try:
            block = os.read(descriptor, _BLOCK_BYTES)
        except BlockingIOError:
            return True
        if block:
            self.sinks[descriptor](block)
        return bool(block)

    def _drain(self, selector: selectors.BaseSelector) -> None:
        """Take what still stands in the pipes; everybody who could write is dead."""
        for descriptor in [key.fd for key in selector.get_map().values() if key.fd in self.sinks]:
            while True:
                try:
                    block = os.read(descriptor, _BLOCK_BYTES)
                except BlockingIOError:
                    break
                if not block:
                    break
                self.sinks[descriptor](block)
