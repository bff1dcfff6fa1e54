"""Stacks of layers through the kernel's overlayfs, mounted by system call."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from packager.base.errors import WorldError
from packager.sandbox import kernel
from packager.sandbox.namespaces import in_first_user_namespace
from packager.store.trees import remove_tree

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MAX_LAYERS = 500
"""The kernel's own limit (OVL_MAX_STACK)."""

_OPTIONS = "redirect_dir=nofollow,metacopy=off,index=off,xino=off"
"""Nothing but plain whiteouts and opaque directories in the upper layer, whatever the kernel was built to prefer."""

_UPPER, _WORK, _MERGED, _LOWER, _EMPTY = "u", "w", "m", "r", "e"


class Stack:
    """The mounted views of one stack: `root` is writable, `lower` is not, `upper` holds what was written."""

    def __init__(self, directory: Path) -> None:
        self.root = directory / _MERGED
        self.lower = directory / _LOWER
        self.upper = directory / _UPPER


@contextlib.contextmanager
def stacked(layers: Sequence[Path], directory: Path) -> Iterator[Stack]:
    """Mount `layers` (lowest first) twice below `directory`, which is made here and deleted afterwards."""
    check_layers(layers)
    directory.mkdir(mode=0o700, parents=True)
    stack = Stack(directory)
    try:
        for name in (_UPPER, _WORK, _MERGED, _LOWER, _EMPTY):
            _make_root(directory / name)
        names = _name_layers(layers or [directory / _EMPTY], directory)
        _mount_lower(names, directory)
        _mount(directory, _MERGED, f"lowerdir={':'.join(names)},upperdir={_UPPER},workdir={_WORK}", kernel.MS_NODEV)
        yield stack
    finally:
        for view in (stack.root, stack.lower):
            with contextlib.suppress(OSError):
                kernel.unmount(str(view))
        delete_tree(directory)


def check_layers(layers: Sequence[Path]) -> None:
    """Refuse what overlayfs would answer with nothing but `invalid argument`."""
    if len(layers) > MAX_LAYERS:
        raise WorldError(f"expected at most {MAX_LAYERS} layers, found {len(layers)}", where="overlayfs")
    missing = [str(layer) for layer in layers if not layer.is_dir()]
    if missing:
        raise WorldError(f"no such layer directory: {missing[0]}", where="overlayfs")


def delete_tree(directory: Path) -> None:
    """Delete a scratch directory; nothing must be mounted below it any more."""
    still = [line for line in _mount_points() if line.startswith(f"{directory}/")]
    if still:
        raise WorldError(f"still mounted: {still[0]}", where=str(directory))
    remove_tree(directory)
    if directory.exists():
        raise WorldError("cannot be deleted", where=str(directory))


def _mount_points() -> list[str]:
    lines = Path("/proc/self/mounts").read_text().splitlines()
    return [line.split()[1].replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\") for line in lines]


def _make_root(path: Path) -> None:
    path.mkdir()
    path.chmod(0o755)


def _name_layers(layers: Sequence[Path], directory: Path) -> list[str]:
    """Give each layer a short name beside the views, highest first: the option string must fit in one page.

    Overlayfs refuses a directory twice; of equal layers the highest covers all that the lower ones hold.
    """
    names = []
    for number, layer in enumerate(dict.fromkeys(reversed(layers))):
        (directory / str(number)).symlink_to(layer.absolute())
        names.append(str(number))
    return names


def _mount_lower(names: Sequence[str], directory: Path) -> None:
    if len(names) > 1:
        _mount(directory, _LOWER, f"lowerdir={':'.join(names)}", kernel.MS_NODEV | kernel.MS_RDONLY)
        return
    handle = kernel.clone_mount(str(directory / names[0]))
    try:
        kernel.set_mount_attributes(handle, kernel.ATTR_RDONLY | kernel.ATTR_NODEV)
        kernel.attach_mount(handle, str(directory / _LOWER))
    finally:
        os.close(handle)


def _mount(directory: Path, target: str, layers: str, flags: int) -> None:
    extra = "" if in_first_user_namespace() else ",userxattr"
    wanted = [f"{layers},{_OPTIONS}{extra}"]
    if "upperdir=" in layers:
        wanted.insert(0, f"{wanted[0]},volatile")  # scratch need not survive a crash of the machine; not before 5.10
    for data in wanted:
        problem = _mount_from(directory, target, data, flags)
        if problem is None:
            return
        if problem.errno != errno.EINVAL:
            break
    raise WorldError(
        f"overlay not mounted: {problem.strerror if problem else ''}",
        where=str(directory),
        hint="scratch must be on ext4, xfs, btrfs or tmpfs, not on an overlay itself (see --scratch and `doctor`); "
        "a plain user needs Linux 5.11",
    )


def _mount_from(directory: Path, target: str, data: str, flags: int) -> OSError | None:
    """Mount from inside `directory`, so that names are short, in a thread that has a working directory of its own.

    An interrupt waits until the thread is done: who is interrupted then unmounts what is mounted, not what may yet be.
    """
    problems: list[OSError] = []

    def work() -> None:
        try:
            kernel.unshare(kernel.CLONE_FS)
            os.chdir(directory)
            kernel.mount("overlay", target, "overlay", flags, data)
        except OSError as error:
            problems.append(error)

    thread = threading.Thread(target=work)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        thread.start()
        thread.join()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return problems[0] if problems else None
