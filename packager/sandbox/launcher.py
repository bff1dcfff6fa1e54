# ruff: noqa: PTH102, PTH103, PTH120, PTH211 (importing pathlib takes as long as everything that stands here)
"""Makes one sandbox and runs one command in it; a program of its own, started by the native engine.

Three processes, all of which die when the one above dies: the launcher waits outside; the first process of the new
process namespace makes the mounts, then only reaps; the command is its child. Standard library only, and little of it:
Python's start is most of what starting a command costs. Everything a command may see is decided here and in identity.
"""

from __future__ import annotations

import marshal
import os
import resource
import stat
import sys
from _socket import AF_INET, AF_UNIX, SCM_RIGHTS, SO_REUSEADDR, SOCK_DGRAM, SOCK_STREAM, SOL_SOCKET, socket
from fcntl import ioctl

from packager.sandbox import kernel, syscall_filter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from packager.sandbox.spec import Spec

CAPABILITIES = (0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 29, 31)
"""What root keeps, rootless or not: docker's list without CAP_MKNOD, since device nodes cannot be in a layer.

chown, dac_override, fowner, fsetid, kill, setgid, setuid, setpcap, net_bind_service, net_raw, sys_chroot, audit_write,
setfcap: enough for dpkg and apt; not enough to mount, to trace others or to reach the host.
"""

_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_PROC_READ_ONLY = ("bus", "fs", "irq", "sys", "sysrq-trigger")
_PROC_HIDDEN = ("kcore", "keys", "latency_stats", "sched_debug", "timer_list")
_SIOCGIFFLAGS = 0x8913
_SIOCSIFFLAGS = 0x8914
_IFF_UP = 1
_WATCHED = (kernel.SIGTERM, kernel.SIGCHLD)
_NOT_FOUND = 127
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_NOT_RUNNABLE = 126
_SIGNALLED = 128


def main() -> NoReturn:
    """Read the spec from the descriptor named by the last argument and end as the command ends."""
    with os.fdopen(int(sys.argv[-1]), "rb") as stream:
        told = stream.read()
    if not told:
        os._exit(_NOT_RUNNABLE)  # nobody needed this launcher, or nobody is there any more
    spec: Spec = marshal.loads(told)  # noqa: S302 - our own parent wrote it
    os.set_inheritable(spec["status"], False)  # noqa: FBT003
    sys.excepthook = lambda kind, error, _: _report(spec, f"{kind.__name__}: {error}")  # our bug, not the command's
    sys.meta_path.clear()  # from here on an import would take whatever the tree holds
    _reporting(spec, lambda: _wait_outside(spec))


def _report(spec: Spec, text: str) -> None:
    os.write(spec["status"], text.encode(errors="replace"))


def _reporting(spec: Spec, work: Callable[[], NoReturn]) -> NoReturn:
    try:
        work()
    except OSError as error:
        _report(spec, error.strerror or str(error))
        os._exit(_NOT_RUNNABLE)


def _wait_outside(spec: Spec) -> NoReturn:
    kernel.prctl(kernel.PR_SET_PDEATHSIG, kernel.SIGKILL)
    if os.getppid() != spec["parent"]:
        os._exit(_NOT_RUNNABLE)
    namespaces = kernel.CLONE_NEWNS | kernel.CLONE_NEWPID | kernel.CLONE_NEWIPC
    kernel.unshare(namespaces | kernel.CLONE_NEWUTS | kernel.CLONE_NEWNET)
    raise_loopback()
    if spec["listener"] >= 0:
        _pass_listener(spec["listener"], spec["port"])
    kernel.restore_signal(kernel.SIGCHLD)  # were it ignored, nobody's end could be waited for
    kernel.block_signals(_WATCHED)
    alive, held = os.pipe()  # the writing end closes when this process dies
    first = os.fork()
    if first == 0:
        os.close(held)
        _reporting(spec, lambda: _become_first(spec, alive))
    while True:
        if kernel.wait_signal(_WATCHED) == kernel.SIGTERM:
            os.kill(first, kernel.SIGKILL)  # all of its namespace ends with it, and before it
        pid, status = os.waitpid(first, os.WNOHANG)
        if pid:
            os._exit(_exit_code(status))


def _wait_for(child: int) -> int:
    """Reap children until `child` ends, and return its exit code."""
    while True:
        pid, status = os.wait()
        if pid == child:
            return _exit_code(status)


def _exit_code(status: int) -> int:
    """Return the exit code, or 128 + signal."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else _SIGNALLED - code


def raise_loopback() -> None:
    """Switch on the loopback device of this thread's network."""
    handle = socket(AF_INET, SOCK_DGRAM | os.O_CLOEXEC)
    name = b"lo".ljust(16, b"\0")
    flags = int.from_bytes(ioctl(handle.fileno(), _SIOCGIFFLAGS, name + bytes(24))[16:18], sys.byteorder)
    up = (flags | _IFF_UP).to_bytes(2, sys.byteorder)
    ioctl(handle.fileno(), _SIOCSIFFLAGS, name + up + bytes(22))
    handle.close()


def _pass_listener(channel: int, port: int) -> None:
    """Listen inside the new network and hand the socket out: the only thing that crosses."""
    listening = socket(AF_INET, SOCK_STREAM | os.O_CLOEXEC)
    listening.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", port))
    listening.listen(128)
    outward = socket(AF_UNIX, SOCK_STREAM, 0, channel)
    outward.sendmsg([b"L"], [(SOL_SOCKET, SCM_RIGHTS, listening.fileno().to_bytes(4, sys.byteorder))])
    outward.close()
    listening.close()


def _become_first(spec: Spec, alive: int) -> NoReturn:
    """Be process 1: make what the command sees, start it, reap until it ends; what it left behind ends then, too."""
    kernel.prctl(kernel.PR_SET_PDEATHSIG, kernel.SIGKILL)
    os.set_blocking(alive, False)
    try:
        os.read(alive, 1)
        os._exit(_NOT_RUNNABLE)  # the launcher died before the line above could tell
    except BlockingIOError:
        pass
    _hide_arguments()
    for path in spec["cgroups"]:
        _write(path, b"0")
    kernel.unshare(kernel.CLONE_NEWCGROUP)
    kernel.set_host_name(spec["hostname"])
    may_chroot = _build_view(spec)
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)  # nobody inside looks at this process's memory, files or program
    command = os.fork()
    if command == 0:
        _become_command(spec, CAPABILITIES if may_chroot else [c for c in CAPABILITIES if c != kernel.CAP_SYS_CHROOT])
    os.closerange(0, 3)
    os._exit(_wait_for(command))


def _hide_arguments() -> None:
    """Blank what /proc/1/cmdline shows: paths of this machine are nothing that a build may see."""
    handle = os.open("/proc/self/stat", os.O_RDONLY | os.O_CLOEXEC)
    fields = os.read(handle, 4096).rpartition(b")")[2].split()
    os.close(handle)
    first, end = (int(fields[number - 3]) for number in (48, 49))  # man 5 proc: arg_start, arg_end
    kernel.clear_memory(first, end - first)


def _write(path: str, data: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    os.write(handle, data)
    os.close(handle)


def _build_view(spec: Spec) -> bool:
    """Make the tree the root and mount over it what never belongs to a layer; say whether chroot(2) stays safe."""
    os.umask(0)
    kernel.make_mounts_private()
    files = [(_detached(source, writable=False), target) for source, target in spec["files"]]
    binds = [(_detached(source, writable=writable), target, source) for source, target, writable in spec["binds"]]
    devices = [(kernel.clone_mount(f"/dev/{name}"), f"/dev/{name}") for name in _DEVICES]
    os.chdir(spec["root"])
    with_proc = _kind("proc") == stat.S_IFDIR
    if with_proc:  # a user namespace may mount proc only while another one is in sight
        kernel.mount("proc", "proc", "proc", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC)
    may_chroot = _change_root()
    _mount_dev(devices, spec["memory"])
    if with_proc:
        _cover_proc()
    for handle, target in files:
        if _kind(target) == stat.S_IFREG:
            kernel.attach_mount(handle, target)
    _attach_binds(binds, spec["room"])
    os.umask(0o022)
    return may_chroot


def _detached(source: str, *, writable: bool) -> int:
    handle = kernel.clone_mount(source)
    kernel.set_mount_attributes(handle, kernel.ATTR_NODEV | (0 if writable else kernel.ATTR_RDONLY))
    return handle


def _change_root() -> bool:
    try:
        kernel.pivot_root(".", ".")
    except OSError:
        # The process is in a chroot, whose root is no mount point. Moving the tree over it hides the host as well,
        # except from a process that may call chroot itself.
        kernel.mount(".", "/", None, kernel.MS_MOVE)
        os.chroot(".")
        os.chdir("/")
        return False
    kernel.unmount(".")
    os.chdir("/")
    return True


def _kind(path: str) -> int:
    """Return the type of file at `path`, 0 if there is none; a symbolic link is not followed."""
    try:
        return stat.S_IFMT(os.lstat(path).st_mode)
    except OSError:
        return 0


def _mount_dev(devices: list[tuple[int, str]], memory: int) -> None:
    if _kind("/dev") != stat.S_IFDIR:
        return
    hardened = kernel.MS_NOSUID | kernel.MS_NODEV
    kernel.mount("tmpfs", "/dev", "tmpfs", kernel.MS_NOSUID, "mode=755,size=65536k")
    for handle, target in devices:
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o666))
        kernel.attach_mount(handle, target)
    for name, target in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
        os.symlink(f"/proc/self/fd{target}", f"/dev/{name}")
    os.symlink("pts/ptmx", "/dev/ptmx")
    os.mkdir("/dev/pts", 0o755)
    kernel.mount(
        "devpts", "/dev/pts", "devpts", kernel.MS_NOSUID | kernel.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620"
    )
    os.mkdir("/dev/shm", 0o1777)  # noqa: S108 - a mount point in our own tmpfs
    size = f",size={memory // 2}" if memory else ""
    kernel.mount("shm", "/dev/shm", "tmpfs", hardened, f"mode=1777{size}")  # noqa: S108


def _cover_proc() -> None:
    for name in _PROC_READ_ONLY:
        if _kind(f"/proc/{name}"):
            handle = kernel.clone_mount(f"/proc/{name}")
            kernel.set_mount_attributes(handle, kernel.ATTR_RDONLY)
            kernel.attach_mount(handle, f"/proc/{name}")
    for name in _PROC_HIDDEN:
        if _kind(f"/proc/{name}") and _kind("/dev/null"):
            kernel.attach_mount(kernel.clone_mount("/dev/null"), f"/proc/{name}")


def _attach_binds(binds: list[tuple[int, str, str]], room: str) -> None:
    if any(target.startswith(f"{room}/") for _, target, _ in binds):
        parent = os.path.dirname(room)
        if _kind(parent) != stat.S_IFDIR:
            raise OSError(0, f"the tree has no directory {parent}, below which {room} is made")
        os.makedirs(room, mode=0o755, exist_ok=True)
        kernel.mount("tmpfs", room, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "mode=755,size=1024k")
    for handle, target, source in binds:
        is_directory = stat.S_ISDIR(os.fstat(handle).st_mode)
        if target.startswith(f"{room}/"):
            _make_mount_point(target, is_directory=is_directory)
        if _kind(target) != (stat.S_IFDIR if is_directory else stat.S_IFREG):
            kind = "directory" if is_directory else "file"
            raise OSError(0, f"{source} cannot be bound: the tree has no {kind} {target}")
        kernel.attach_mount(handle, target)
    if _kind(room) == stat.S_IFDIR and os.path.ismount(room):
        kernel.mount(None, room, None, 0x20 | kernel.MS_BIND | kernel.MS_RDONLY | kernel.MS_NOSUID | kernel.MS_NODEV)


def _make_mount_point(target: str, *, is_directory: bool) -> None:
    os.makedirs(os.path.dirname(target), mode=0o755, exist_ok=True)
    if is_directory:
        os.makedirs(target, mode=0o755, exist_ok=True)
    elif not _kind(target):
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))


def _become_command(spec: Spec, capabilities: tuple[int, ...] | list[int]) -> NoReturn:
    for number in (kernel.SIGPIPE, kernel.SIGXFSZ, kernel.SIGINT):
        kernel.restore_signal(number)
    kernel.block_signals(())
    try:
        _limit_and_drop(spec, capabilities)
    except OSError as error:
        _report(spec, error.strerror or str(error))
        os._exit(_NOT_RUNNABLE)
    try:
        os.chdir(spec["cwd"])
    except OSError as error:
        _refuse(f"cannot enter {spec['cwd']}: {os.strerror(error.errno or 0)}", _NOT_FOUND)
    _execute(spec)


def _execute(spec: Spec) -> NoReturn:
    """Replace this process by the command, found along its own PATH; no shell, and none of Python's own search."""
    name, problem = spec["argv"][0], "No such file or directory"
    directories = [""] if "/" in name else [f"{part or '.'}/" for part in spec["env"].get("PATH", _PATH).split(":")]
    for directory in directories:
        try:
            os.execve(f"{directory}{name}", spec["argv"], spec["env"])  # noqa: S606
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            problem = error.strerror or str(error)
        except ValueError as error:
            problem = str(error)
    _refuse(f"cannot start {name}: {problem}", _NOT_FOUND if problem.startswith("No such") else _NOT_RUNNABLE)


def _refuse(text: str, code: int) -> NoReturn:
    """Say on the command's own standard error what a shell would say, and end as a shell would."""
    os.write(2, f"wideswe-pack: {text}\n".encode(errors="replace"))
    os._exit(code)


def _limit_and_drop(spec: Spec, capabilities: tuple[int, ...] | list[int]) -> None:
    os.setsid()
    open_files = spec["open_files"]
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_files, open_files))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if spec["rlimit_memory"]:
        resource.setrlimit(resource.RLIMIT_DATA, (spec["rlimit_memory"], spec["rlimit_memory"]))
    if spec["rlimit_processes"]:
        resource.setrlimit(resource.RLIMIT_NPROC, (spec["rlimit_processes"], spec["rlimit_processes"]))
    if spec["cpus"]:
        os.sched_setaffinity(0, spec["cpus"])
    for handle in (1, 2):
        if stat.S_ISFIFO(os.fstat(handle).st_mode):
            os.fchown(handle, spec["uid"], spec["gid"])  # /dev/stdout can be opened by whom it belongs to
    kernel.limit_capabilities(capabilities)
    os.setgroups([])
    os.setresgid(spec["gid"], spec["gid"], spec["gid"])
    os.setresuid(spec["uid"], spec["uid"], spec["uid"])
    kernel.set_capabilities(capabilities if spec["uid"] == 0 else ())
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    syscall_filter.install()
