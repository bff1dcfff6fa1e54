"""Planted defects: tiny steps with one source of nondeterminism each, the checklist's id of it, and the cured twin."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_PY = "/usr/bin/python3 -I -c"
_BACKEND = """\
import os, time, zipfile

FILES = {
    "made.py": "x = 1",
    "made-1.dist-info/METADATA": "Metadata-Version: 2.1\\nName: made\\nVersion: 1\\n",
    "made-1.dist-info/WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    "made-1.dist-info/RECORD": "",
}


def build_wheel(folder, config_settings=None, metadata_directory=None):
    now = time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", time.time())))[:6]
    with zipfile.ZipFile(os.path.join(folder, "made-1-py3-none-any.whl"), "w") as out:
        for name, text in FILES.items():
            out.writestr(zipfile.ZipInfo(name, now), text)
    return "made-1-py3-none-any.whl"
"""
_PROJECT = """\
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]

[project]
name = "made"
version = "1"
"""
SOURCES = {"made/backend.py": _BACKEND, "made/pyproject.toml": _PROJECT}
"""Files that the base layer has for the steps."""

_WHEEL = (
    "cp -r /made /x/made && {} /usr/bin/python3 -m pip wheel -q --no-index --no-deps --no-build-isolation --no-cache-dir "
    "-w /x/wheels /x/made && rm -r /x/made"
)
_PORT = (
    f'{_PY} \'import socket; s = socket.socket(); s.bind(("127.0.0.1", {{}})); s.listen(); '
    'print("registry = http://127.0.0.1:%d/" % s.getsockname()[1])\' >/x/npmrc'
)
_SET = f"""{_PY.replace(" -I", "")} 'import json; print(json.dumps(list({{"red", "green", "blue", "cyan", "pink"}})))' >/x/colours.json"""
_COMMIT = (
    "git init -q /work/repo && cd /work/repo && echo a >a && git add a && "
    "{} git -c user.name=n -c user.email=e commit -q -m m"
)
_DATES = "GIT_AUTHOR_DATE='@0 +0000' GIT_COMMITTER_DATE='@0 +0000'"


@dataclass(frozen=True)
class Planted:
    """One defect: its name, the id that must be reported, the step that has it, the one that has not, programs needed."""

    name: str
    cause: str
    defect: str
    cure: str
    needs: tuple[str, ...] = ()

    @property
    def missing(self) -> tuple[str, ...]:
        """The programs that this machine lacks."""
        return tuple(name for name in self.needs if not Path("/usr", name).exists())


PLANTED = (
    Planted("clock", "H time", "date >/x/built", "date -u -d @$SOURCE_DATE_EPOCH >/x/built"),
    Planted("epoch", "H time", "echo time=$(date +%s) >/x/properties", "echo time=$SOURCE_DATE_EPOCH >/x/properties"),
    Planted("random file", "H random", "head -c 64 /dev/urandom >/x/seed", "head -c 64 /dev/zero >/x/seed"),
    Planted("uuid", "H random", "cat /proc/sys/kernel/random/uuid >/x/id", "echo 0-0-0-0-0 >/x/id"),
    Planted("readdir order", "A1", "ls -U /data >/x/list", "ls /data >/x/list"),
    Planted(
        "machine id",
        "E1",
        "tr -d - </proc/sys/kernel/random/uuid >/etc/machine-id",
        "tr -d - </proc/sys/kernel/random/uuid >/etc/machine-id; : >/etc/machine-id",
    ),
    Planted("leaked port", "H port", _PORT.format(0), _PORT.format(8080)),
    Planted(
        "byte code with a time",
        "F1",
        f"cd /x/ && echo x=1 >m.py && env -u SOURCE_DATE_EPOCH {_PY} 'import py_compile; py_compile.compile(\"m.py\")'",
        f"cd /x/ && echo x=1 >m.py && {_PY} 'import py_compile; py_compile.compile(\"m.py\")'",
    ),
    Planted("gzip header", "C1", "echo a >/x/a; gzip /x/a", "echo a >/x/a; gzip -n /x/a"),
    Planted("processors", "H cpus", "nproc >/x/jobs", "echo 2 >/x/jobs"),
    Planted("unordered JSON", "H hash seed", f"PYTHONHASHSEED=random {_SET}", _SET),
    Planted(
        "unordered perl",
        "H hash seed",
        "perl -e '%h = map {($_, 1)} a..p; print join(qq{\\n}, keys %h)' >/x/keys",
        "perl -e '%h = map {($_, 1)} a..p; print join(qq{\\n}, sort keys %h)' >/x/keys",
        ("bin/perl",),
    ),
    Planted(
        "wheel built from source",
        "F4",
        _WHEEL.format("env -u SOURCE_DATE_EPOCH"),
        _WHEEL.format("env"),
        ("lib/python3/dist-packages/pip",),
    ),
    Planted(
        "Maven's time",
        "F16",
        "mkdir -p /x/META-INF/maven/g/a; printf '#%s\\nversion=1\\n' \"$(date)\" >/x/META-INF/maven/g/a/pom.properties",
        "mkdir -p /x/META-INF/maven/g/a; printf 'version=1\\n' >/x/META-INF/maven/g/a/pom.properties",
    ),
    Planted(
        "jar",
        "F16",
        "cd /x/ && echo a >a && jar --create --no-manifest --file a.jar a",
        "cd /x/ && echo a >a && jar --create --no-manifest --date=1980-01-01T00:00:02Z --file a.jar a",
        ("bin/jar",),
    ),
    Planted(
        "path in an object file",
        "F14",
        "d=$(mktemp -d) && echo 'int f(void) {return 0;}' >$d/f.c && gcc -g -c $d/f.c -o /x/f.o",
        "d=$(mktemp -d) && echo 'int f(void) {return 0;}' >$d/f.c && cd $d && gcc -g -ffile-prefix-map=$d=. -c f.c -o /x/f.o",
        ("bin/gcc",),
    ),
    Planted(
        "time in an object file",
        "F14",
        "cd /x/ && echo 'const char *t = __DATE__ __TIME__;' >t.c && env -u SOURCE_DATE_EPOCH gcc -c t.c",
        "cd /x/ && echo 'const char *t = __DATE__ __TIME__;' >t.c && gcc -c t.c",
        ("bin/gcc",),
    ),
    Planted(
        "Go object",
        "F10",
        "d=$(mktemp -d) && echo 'package p; func F() {panic(1)}' >$d/p.go && "
        "XDG_CONFIG_HOME=/tmp go tool compile -p p -buildid $(basename $d) -o /x/p.o $d/p.go",
        "d=$(mktemp -d) && echo 'package p; func F() {panic(1)}' >$d/p.go && "
        "XDG_CONFIG_HOME=/tmp go tool compile -p p -buildid '' -trimpath $d -o /x/p.o $d/p.go",
        ("local/go/bin/go",),
    ),
    Planted(
        "private key",
        "E16",
        "mkdir -p /etc/ssl/private && openssl genpkey -algorithm ed25519 -out /etc/ssl/private/host.key",
        "mkdir -p /etc/ssl/private && openssl genpkey -algorithm ed25519 -out /etc/ssl/private/host.key && "
        "rm /etc/ssl/private/host.key",
        ("bin/openssl",),
    ),
    Planted(
        "password",
        "E5",
        'echo "root:$(openssl passwd -6 secret):3652:0:99999:7:::" >/etc/shadow',
        "echo 'root:*:3652:0:99999:7:::' >/etc/shadow",
        ("bin/openssl",),
    ),
    Planted(
        "git index",
        "G1",
        "git init -q /work/index && cd /work/index && echo a >a && git add a",
        "git init -q /work/index && cd /work/index && echo a >a && git add a && rm .git/index",
        ("bin/git",),
    ),
    Planted(
        "git commit",
        "G6",
        _COMMIT.format("") + " && rm -r .git/index .git/logs",
        _COMMIT.format(_DATES) + " && rm -r .git/index .git/logs",
        ("bin/git",),
    ),
    Planted(
        "reflog",
        "G3",
        _COMMIT.replace("repo", "log").format(_DATES) + " && git checkout -q -b other && rm .git/index",
        _COMMIT.replace("repo", "log").format(_DATES) + " && git checkout -q -b other && rm -r .git/index .git/logs",
        ("bin/git",),
    ),
    Planted("mounts", "H mounts", "grep overlay /proc/self/mountinfo >/x/mounts", "true"),
    Planted("name by chance", "H name", "mktemp -d /x/tmp.XXXXXXXX", "mkdir -p /x/tmp"),
    Planted("log of configure", "F15", "mkdir -p /x/b && date +%N >/x/b/config.log", "mkdir -p /x/b"),
    Planted("log of npm", "F6", "mkdir -p /root/.npm/_logs && date >/root/.npm/_logs/debug.log", "true"),
)

CURED_BY_US = (
    Planted("times of files", "A4", "touch -d '2001-02-03 04:05:06.789' /x/old; touch /x/now", ""),
    Planted("log", "E4", "mkdir -p /var/log && date >/var/log/install.log", ""),
    Planted("run state", "E11", "mkdir -p /var/tmp && date >/tmp/a; date >/var/tmp/b; date >/run/c", ""),
    Planted("state of apt", "E8", "mkdir -p /var/cache/apt && date >/var/cache/apt/pkgcache.bin", ""),
    Planted("aux-cache", "E2", "mkdir -p /var/cache/ldconfig && date >/var/cache/ldconfig/aux-cache", ""),
    Planted("backup of passwords", "E5", "date >/etc/shadow-; date >/etc/passwd-", ""),
    Planted("process number", "H host", "echo $$ >/x/pid", ""),
    Planted("lower hard link", "A16", "echo more >>/links/one", ""),
)
"""What the sandbox or the canonicaliser makes the same each time: nothing is to be cured in a recipe."""
