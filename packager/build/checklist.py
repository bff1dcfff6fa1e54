"""The checklist of what makes two builds differ: the ids that `reproduce` reports, what each is, and what cures it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Cause:
    """One row: its id, what differs, and what to do about it."""

    id: str
    title: str
    cure: str

    def __str__(self) -> str:
        return f"{self.id} ({self.title}): {self.cure}"


_ROWS = (
    ("A1", "order of a directory", "sort what is listed: `ls` and `find` give the order of the file system"),
    (
        "A4",
        "time of a file",
        "nothing: every entry of a layer is of 1980-01-01; an engine that shows another is at fault",
    ),
    ("A7", "owner", "set the owner in the step; ids must be those inside the sandbox"),
    ("A10", "umask", "set modes with chmod or `install -m`, not by the umask"),
    ("A15", "hard links", "make copies instead of hard links, or make the links in the step that makes the file"),
    ("A16", "hard link of a lower layer", "replace the file (`cp`, then `mv`) instead of writing into it"),
    ("A20", "capability", "set it after the last chown, with setcap"),
    ("B1", "deletion or opaque directory", "an engine reports another tree: compare its views of the step"),
    ("B5", "other entries", "write the same files each time: a step creates or deletes files by chance"),
    ("C1", "header of gzip", "gzip -n, or write to a pipe: neither time nor name is then stored"),
    ("C2", "compressed bytes", "compress with one pinned program, or not at all: layers are compressed anyway"),
    ("D", "image configuration", "compare the Dockerfiles; it holds no value of a machine"),
    ("E1", "machine id", "empty it: `: > /etc/machine-id; rm -f /var/lib/dbus/machine-id`"),
    ("E2", "ldconfig's auxiliary cache", "rm -f /var/cache/ldconfig/aux-cache"),
    ("E3", "ld.so.cache", "run ldconfig last in the step"),
    ("E4", "log", "delete what is below /var/log"),
    ("E5", "password file", "no password, or a given hash: `usermod -p '*'`; SOURCE_DATE_EPOCH fixes the day"),
    ("E6", "order of accounts", "create accounts in one fixed order, before packages do"),
    ("E7", "state of dpkg", "rm -f /var/lib/dpkg/*-old"),
    ("E8", "state of apt", "rm -rf /var/lib/apt/lists/* /var/cache/apt/*"),
    ("E10", "host files", "leave /etc/hostname, /etc/hosts and /etc/resolv.conf alone"),
    ("E11", "run state", "empty /run, /tmp and /var/tmp"),
    ("E12", "state of systemd", "rm -f /var/lib/systemd/random-seed /var/lib/systemd/catalog/database"),
    ("E13", "cache of fontconfig", "rm -rf /var/cache/fontconfig"),
    ("E14", "locale archive", "use C.UTF-8, or localedef --no-archive"),
    ("E15", "cache of man-db", "rm -rf /var/cache/man"),
    ("E16", "generated key", "do not ship generated keys: delete it in the step that makes it"),
    ("E17", "certificate store", "rebuild it with a fixed time, or copy a pinned one"),
    ("E18", "state of gnupg", "rm -rf /root/.gnupg"),
    (
        "E21",
        "cache or history in a home",
        "HOME=/tmp/home or XDG_CONFIG_HOME=/tmp/config for the command, or delete it",
    ),
    ("F1", "Python byte code", "keep SOURCE_DATE_EPOCH, which makes it hash-based, or PYTHONDONTWRITEBYTECODE=1"),
    ("F2", "what pip notes", "install from an index with pinned versions, never from a path in /tmp"),
    ("F3", "what uv notes", "UV_NO_INSTALLER_METADATA=1"),
    ("F4", "wheel built from source", "keep SOURCE_DATE_EPOCH and a fixed build folder, or lock wheels"),
    ("F5", "virtual environment", "make it at its final path"),
    ("F6", "state of npm", "npm ci --ignore-scripts, then delete ~/.npm and node_modules/.cache"),
    ("F7", "state of pnpm", "delete node_modules/.modules.yaml and .pnpm-workspace-state*.json"),
    ("F8", "state of yarn", "delete node_modules/.yarn-state.yml and .yarn/install-state.gz"),
    ("F10", "Go build", "go build -trimpath -buildvcs=false -ldflags=-buildid="),
    ("F11", "state of the Go module cache", "delete cache/lock and cache/vcs"),
    ("F12", "state of cargo", "CARGO_INCREMENTAL=0, one fixed path, delete .rustc_info.json"),
    ("F14", "object file", "-ffile-prefix-map, ar D, no __DATE__, no -march=native, no temporary path"),
    ("F15", "log or cache of a build tool", "delete config.log, .ninja_log and .ninja_deps"),
    (
        "F16",
        "jar, or file of Maven's with a time",
        "set project.build.outputTimestamp; Gradle: reproducibleFileOrder=true",
    ),
    (
        "F17",
        "state of the local Maven repository",
        "delete _remote.repositories, *.lastUpdated, resolver-status.properties",
    ),
    ("F18", "state of Gradle", "keep caches/modules-2/files-2.1 alone of ~/.gradle"),
    ("F19", "log of a gem's build", "delete mkmf.log and gem_make.out"),
    ("F20", "autoloader of Composer", "set config.autoloader-suffix"),
    ("F22", "perllocal.pod or .packlist", "delete them"),
    ("F23", "cache of a test tool", "delete .pytest_cache, .mypy_cache, .hypothesis, .coverage"),
    ("G1", "git index", "delete .git/index, then git read-tree HEAD"),
    ("G2", "pack of git", "let the packager write repositories"),
    ("G3", "reflog of git", "delete .git/logs"),
    ("G4", "git configuration", "write .git/config yourself"),
    ("G5", "other state of git", "delete FETCH_HEAD, ORIG_HEAD, hooks, commit-graph"),
    ("G6", "refs or commits of git", "fix author, committer and both dates; no branch that moves"),
    ("H time", "the clock", "use SOURCE_DATE_EPOCH instead of the time of day"),
    ("H time zone", "the time zone", "keep TZ=UTC"),
    ("H locale", "the locale", "keep LC_ALL=C.UTF-8; sort with LC_ALL=C"),
    ("H host name", "the host name", "do not store it"),
    ("H cpus", "the number of processors", "give the number: make -j2, not -j$(nproc)"),
    ("H hash seed", "order of a hash table", "sort before writing; keep PYTHONHASHSEED=0, PERL_HASH_SEED=0"),
    ("H port", "a port number", "listen on a fixed port; do not store addresses"),
    ("H mounts", "what is mounted", "do not store /proc/self/mountinfo, /proc/mounts or df"),
    ("H name", "a name made by chance", "use a fixed name instead of mktemp"),
    ("H random", "random bytes", "no random value in a file that stays; a fixed seed"),
    ("H user", "who builds", "root or rootless must not matter: set owners and modes in the step"),
    ("H host", "something of the machine", "clear what the step reads of its surroundings"),
    (
        "I",
        "an input that is not pinned",
        "pin a version, a commit or a digest in the recipe, and fetch it where it is recorded",
    ),
)

CHECKLIST = {identifier: Cause(identifier, title, cure) for identifier, title, cure in _ROWS}
"""By id. What has no number of its own in a section (time, ports …) is named after the section's letter."""
