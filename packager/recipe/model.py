"""What an author writes about one task: a frozen value that cannot be wrong once it exists."""

from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    PrivateAttr,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from packager.base.canonical import format_canonical
from packager.base.digests import Digest, digest_of
from packager.recipe.checks import CROSS, format_key, relation_faults
from packager.recipe.fields import (
    AbsolutePath,
    Alias,
    ArchiveUrl,
    Command,
    Commit,
    Cpus,
    Ecosystem,
    Environment,
    Glob,
    ImageByDigest,
    Instant,
    MemoryBytes,
    Name,
    Package,
    Pids,
    RecipeFile,
    RecipeFolder,
    Repository,
    Seconds,
    Sha256,
    Sorted,
    Strip,
    Suite,
    TaskId,
    Template,
    Version,
    Workdir,
    check_commit,
    fault,
)

SCHEMA = "wideswe-recipe/1"

ResultKind = Literal[
    "junit-xml",
    "gotest-json",
    "tap",
    "cargo-text",
    "dart-json",
    "django-text",
    "exit-status",
    "jest-json",
    "libtest-json",
    "prove",
    "trx",
    "unittest-text",
    "vitest-json",
]
_IN_FILES = frozenset({"junit-xml", "jest-json", "trx", "vitest-json"})
Report = Literal["stdout", "file"]
HistoryKind = Literal["none", "ancestors"]
How = Literal["pip-editable", "go-replace", "node-modules", "checkout"]
Platform = Literal["linux/amd64", "linux/arm64"]

Globs = Annotated[tuple[Glob, ...], Sorted]


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class Base(_Value):
    """Where the root file system comes from: pinned Debian packages, or an image by digest."""

    debian: Suite | None = None
    packages: Annotated[tuple[Package, ...], Sorted] = ()
    image: ImageByDigest | None = None


class Archive(_Value):
    """A toolchain from an archive with a known sha256; `strip` leading folders are dropped from its paths."""

    url: ArchiveUrl
    sha256: Sha256
    strip: Strip = 1


class Toolchain(_Value):
    """Toolchains that do not come from the base, each below /opt/toolchains/<kind>.

    Of Rust, targets may ask for several versions: the newest is the one on PATH, others stand below
    /opt/toolchains/rust-<version> for commands that name them.
    """

    go: Version | None = None
    node: Version | None = None
    rust: Version | None = None
    archive: Archive | None = None


class Gold(_Value):
    """The change that solves the task: the difference from..commit (from: its first parent), or a patch file."""

    commit: Commit | None = None
    from_commit: Commit | None = Field(default=None, alias="from")
    include: Globs = ()
    exclude: Globs = ()
    patch: RecipeFile | None = None


class Hidden(_Value):
    """The tests that judge: paths taken from a commit, and / or a folder laid over the checkout; or a patch of base.

    Of a patch, the files count that it makes of the base commit's.
    """

    commit: Commit | None = None
    paths: Globs = ()
    files: RecipeFolder | None = None
    patch: RecipeFile | None = None


class SharedHistory(_Value):
    """All ancestors, in two packs: those of the commit named here, a layer for every task that names it; and the rest.

    What a task's layers look like must never depend on other tasks: this commit and nothing else divides them.
    """

    shared: Commit


def _history(value: object) -> object:
    if value in ("none", "ancestors") or isinstance(value, SharedHistory):
        return value
    if isinstance(value, dict) and set(value) == {"shared"} and isinstance(value["shared"], str):
        return SharedHistory(shared=check_commit(value["shared"]))
    shown = repr(value)[:120] if isinstance(value, str) else "something else"
    raise fault(f"expected 'none', 'ancestors' or a shared commit, found {shown}", "such as {shared: COMMIT}")


def _plain_history(value: HistoryKind | SharedHistory) -> object:
    return value if isinstance(value, str) else {"shared": value.shared}


History = Annotated[
    HistoryKind | SharedHistory,
    PlainValidator(_history),
    PlainSerializer(_plain_history, return_type=object),
    WithJsonSchema(
        {
            "title": "History",
            "anyOf": [
                {"type": "string", "enum": ["none", "ancestors"]},
                {
                    "type": "object",
                    "properties": {"shared": {"type": "string", "pattern": "^(?:[0-9a-f]{40})$"}},
                    "required": ["shared"],
                    "additionalProperties": False,
                },
            ],
        }
    ),
]


class TargetTests(_Value):
    """How the tests run; without `report`, XML and whole JSON are read from $WIDESWE_REPORT, the others from stdout.

    `shuffle` is the same command with another order of tests, where the tool knows no way itself: it validates.
    """

    run: Command
    workdir: Workdir = "."
    results: ResultKind
    report: Report | None = None
    timeout_s: Seconds = Field(default=1800, alias="timeout")
    env: Environment = Field(default=())
    shuffle: Command | None = None

    @property
    def reads_stdout(self) -> bool:
        """Whether the results are what the command writes to its standard output."""
        return self.results not in _IN_FILES if self.report is None else self.report == "stdout"


class Target(_Value):
    """A repository that must be changed and is graded; it stands at /workspace/<name>.

    `empty_submodules` are paths of submodules that stay empty, as in a clone that does not ask for them; `leave_out`
    are files, large and of no use here, that the checkout goes without (only with `history: none`); `unprotected` are
    files that a patch may change although the evaluator guards files of such names by default.
    """

    name: Name
    repo: Repository | None = None
    bundle: RecipeFile | None = None
    commit: Commit
    gold: Gold
    hidden: Hidden
    history: History = "ancestors"
    empty_submodules: Globs = ()
    leave_out: Globs | None = None
    toolchain: Toolchain = Toolchain()
    manifests: Globs = ()
    dependencies: tuple[Command, ...] = ()
    prepare: tuple[Command, ...] = ()
    test: TargetTests
    protect: Globs = ()
    unprotected: Globs | None = None


class Context(_Value):
    """A repository that may be read and edited but is not graded; it stands at /workspace/<name>."""

    name: Name
    repo: Repository | None = None
    bundle: RecipeFile | None = None
    commit: Commit
    history: HistoryKind = "none"
    empty_submodules: Globs = ()
    leave_out: Globs | None = None


class Link(_Value):
    """How a consumer is wired to a producer's checkout; `check` proves that it loads the checkout.

    `go-replace` makes a go.mod and go.sum in the environment's folder; the consumer's commands and tests use them with
    GOFLAGS="-mod=mod -modfile=FOLDER/go.mod", and its own files stay as they are.
    """

    consumer: Name
    producer: Name
    how: How
    environment: AbsolutePath | None = None
    check: Command


class Service(_Value):
    """A program that runs beside the tests on loopback; `ready` exits 0 once it answers."""

    name: Name
    run: Command
    ready: Command


class Limits(_Value):
    """What the sandbox gives to one command; `disk` is what it may write, 16G where nothing is said."""

    cpus: Cpus = 2
    memory_bytes: MemoryBytes = Field(default=4 << 30, alias="memory")
    pids: Pids = 4096
    disk_bytes: MemoryBytes | None = Field(default=None, alias="disk")


def _by_name(found: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(sorted(found, key=lambda one: one.name))


def _by_ends(found: tuple[Link, ...]) -> tuple[Link, ...]:
    return tuple(sorted(found, key=lambda one: (one.consumer, one.producer, one.how)))


class Recipe(_Value):
    """One task; targets, contexts and links are kept sorted, since their order in the file has no meaning.

    `aliases` are ids of the same task elsewhere; `frozen` is a file with the lists of tests that a release fixed, in
    its own spelling, to compare with what `validate` finds.
    """

    schema_id: Literal["wideswe-recipe/1"] = Field(alias="schema")
    id: TaskId
    aliases: Annotated[tuple[Alias, ...], Sorted] | None = None
    kind: Literal["feature", "bugfix"]
    relation: Literal["producer-consumer", "parallel"]
    ecosystem: Ecosystem
    cutoff: Instant | None = None
    prompt: RecipeFile
    platforms: Annotated[tuple[Platform, ...], Sorted] = ("linux/amd64",)
    base: Base
    template: Template = "task.Dockerfile.j2"
    targets: Annotated[tuple[Target, ...], AfterValidator(_by_name)]
    contexts: Annotated[tuple[Context, ...], AfterValidator(_by_name)] = ()
    links: Annotated[tuple[Link, ...], AfterValidator(_by_ends)] = ()
    services: tuple[Service, ...] = ()
    limits: Limits = Limits()
    frozen: RecipeFile | None = None

    _folder: Path | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _hold_together(self) -> Self:
        faults = relation_faults(plain_recipe(self))
        if faults:
            listed = "; ".join(f"{format_key(one.key)}: {one.message}" for one in faults)
            raise PydanticCustomError(CROSS, "{listed}", {"listed": listed})
        return self

    @property
    def cutoff_s(self) -> int | None:
        """The cutoff in seconds since 1970, as git counts commit times."""
        return None if self.cutoff is None else int(datetime.fromisoformat(self.cutoff).timestamp())

    @property
    def folder(self) -> Path:
        """The folder that the recipe was read from."""
        if self._folder is None:
            raise ValueError(f"recipe {self.id} was not read from a file")
        return self._folder

    def file(self, relative: str) -> Path:
        """Return the absolute path of a file beside the recipe."""
        return self.folder / relative

    def placed(self, folder: Path) -> Self:
        """Return the same recipe as one that lies in `folder`."""
        copy = self.model_copy()
        copy._folder = folder.absolute()  # noqa: SLF001 - a copy of our own class
        return copy

    def target(self, name: str) -> Target:
        """Return the target of that name; KeyError if there is none."""
        return {one.name: one for one in self.targets}[name]


def plain_recipe(recipe: Recipe) -> dict[str, Any]:
    """Return the recipe as JSON values with the keys of the file; what is not set is left out."""
    return recipe.model_dump(mode="json", by_alias=True, exclude_none=True)


def recipe_digest(recipe: Recipe) -> Digest:
    """Return the digest of the canonical JSON of a recipe: equal for files that mean the same."""
    return digest_of(format_canonical(plain_recipe(recipe)))
