"""The small values that a recipe is made of: each is checked at birth and cannot be wrong afterwards."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, WithJsonSchema
from pydantic_core import PydanticCustomError

from packager.base.errors import InputError
from packager.base.paths import parse_relative
from packager.recipe.globs import parse_glob
from packager.recipe.units import format_duration, format_size, parse_duration, parse_size

FAULT = "recipe_fault"
"""Type of the pydantic errors that carry a message and a hint of ours."""

MAX_TIMEOUT_S = 2 * 3600
MIN_MEMORY_BYTES = 64 << 20
_MAX_COMMAND = 8000
_MAX_ADDRESS = 300

_T = TypeVar("_T")


def fault(message: str, hint: str = "") -> PydanticCustomError:
    """Return the error to raise for one wrong value."""
    return PydanticCustomError(FAULT, "{message}", {"message": message, "hint": hint})


def _guarded(parse: Callable[[Any], _T]) -> Callable[[Any], _T]:
    def checked(value: Any) -> _T:  # noqa: ANN401 - raw input
        try:
            return parse(value)
        except InputError as error:
            raise fault(error.reason, error.hint or "") from error

    return checked


def _matching(pattern: str, expected: str, *, hint: str = "", limit: int = 100) -> Any:  # noqa: ANN401 - metadata
    compiled = re.compile(pattern, re.ASCII)

    def checked(value: str) -> str:
        if len(value) > limit or compiled.fullmatch(value) is None:
            raise fault(f"expected {expected}, found {value[:120]!r}", hint)
        return value

    return AfterValidator(checked)


def _schema(pattern: str, **more: Any) -> WithJsonSchema:  # noqa: ANN401 - JSON
    return WithJsonSchema({"type": "string", "pattern": f"^(?:{pattern})$", **more})


def _text(pattern: str, expected: str, *, hint: str = "", limit: int = 100) -> Any:  # noqa: ANN401 - typing form
    return Annotated[str, _matching(pattern, expected, hint=hint, limit=limit), _schema(pattern, maxLength=limit)]


def check_commit(value: str) -> str:
    """Return a commit's full id, or raise the fault to show for it."""
    if re.fullmatch(r"[0-9a-f]{40}", value):
        return value
    if re.fullmatch(r"[0-9a-fA-F]{40}", value):
        raise fault(f"expected a lower-case commit, found {value!r}", f"write {value.lower()}")
    if re.fullmatch(r"[0-9a-fA-F]{4,39}", value):
        raise fault(f"expected the 40 digits of a commit, found {len(value)}: {value!r}", "git rev-parse prints all 40")
    if re.fullmatch(r"[0-9a-fA-F]{64}", value):
        raise fault("expected a SHA-1 commit of 40 digits, found 64: SHA-256 repositories are not supported")
    raise fault(f"expected a commit of 40 hexadecimal digits, found {value[:120]!r}", "branches and tags move")


def _repository(value: str) -> str:
    if re.search(r"://[^/]*@", value):
        raise fault("expected an address without user and password", "credentials belong in git's configuration")
    if (
        not re.fullmatch(r"https://[A-Za-z0-9.-]+(?::[0-9]+)?/[A-Za-z0-9._~/+-]+", value, re.ASCII)
        or len(value) > _MAX_ADDRESS
    ):
        raise fault(f"expected https://host/path, found {value[:120]!r}", "mirrors belong in the configuration")
    return value


def _instant(value: str) -> str:
    if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:Z|[+-]\d\d:\d\d)", value, re.ASCII):
        raise fault(f"expected an RFC 3339 time, found {value[:80]!r}", 'write "2025-12-01T15:06:06Z"')
    try:
        when = datetime.fromisoformat(value)
    except ValueError as error:
        raise fault(f"expected an RFC 3339 time, found {value!r}: {error}") from error
    try:
        return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except OverflowError as error:
        raise fault(f"expected a time between the years 1 and 9999, found {value!r}") from error


def _version(value: object) -> object:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        raise fault(f"expected a version as text, found the number {value}", f'quote it: "{value}"')
    return value


def _timeout(value: object) -> int:
    seconds = parse_duration(value)
    if not 1 <= seconds <= MAX_TIMEOUT_S:
        raise fault(f"expected a timeout between 1s and 2h, found {value!r}")
    return seconds


def _memory(value: object) -> int:
    size_bytes = parse_size(value)
    if not MIN_MEMORY_BYTES <= size_bytes <= 1 << 40:
        raise fault(f"expected between 64M and 1T, found {value!r}")
    return size_bytes


def _command(value: str) -> str:
    if not value.strip() or "\0" in value or len(value) > _MAX_COMMAND:
        raise fault(f"expected a command of 1 to {_MAX_COMMAND} characters")
    return value


def _folder(value: object) -> object:
    return value.removesuffix("/") if isinstance(value, str) and value != "/" else value


def _workdir(value: str) -> str:
    return value if value == "." else parse_relative(value)


def _sorted(values: tuple[_T, ...]) -> tuple[_T, ...]:
    return tuple(sorted(set(values)))  # type: ignore[type-var]


Sorted = AfterValidator(_sorted)
"""For tuples whose order has no meaning."""

_RELATIVE = r"[^/].*"

TASK_ID_PATTERN = "[a-z0-9]+(-[a-z0-9]+)*"
NAME_PATTERN = "[A-Za-z0-9][A-Za-z0-9._-]*"

if TYPE_CHECKING:
    TaskId = str
    Name = str
    Ecosystem = str
    Suite = str
    Package = str
    ImageByDigest = str
    Alias = str
    Template = str
    Version = str
    ArchiveUrl = str
    Sha256 = str
    AbsolutePath = str
    Environment = tuple[tuple[str, str], ...]
else:
    TaskId = _text(TASK_ID_PATTERN, "lower-case words joined by -", hint="such as hello-wide-001", limit=80)
    Alias = _text(r"[A-Za-z0-9][A-Za-z0-9._:/+-]*", "an id of letters, digits and . _ : / + -", limit=200)
    Name = _text(NAME_PATTERN, "a folder name of letters, digits, . _ -")
    Ecosystem = _text("[A-Za-z0-9][A-Za-z0-9._-]*", "a word of letters, digits, . _ -")
    Suite = _text("[a-z]+", "a Debian suite by its code name", hint="such as bookworm")
    Package = _text("[a-z0-9][a-z0-9+.-]+", "a Debian package name", hint="versions are pinned by the lock")
    ImageByDigest = _text(
        r"[a-z0-9]([a-z0-9.:/_-]*[a-z0-9])?@sha256:[0-9a-f]{64}",
        "registry/repository@sha256: and 64 hexadecimal digits",
        hint="a tag can move; take the digest that the registry shows",
        limit=400,
    )
    Template = _text(r"[A-Za-z0-9][A-Za-z0-9._-]*\.j2", "the name of a template in images/ that ends with .j2")
    Version = Annotated[
        _text(r"[0-9]+(\.[0-9]+)*([A-Za-z0-9.+-]*)", "an exact version", hint="such as 1.26.0", limit=60),
        BeforeValidator(_version),
    ]
    ArchiveUrl = _text(r"https://[^\s/@]+/\S+", "an https address without user", limit=400)
    Sha256 = _text("[0-9a-f]{64}", "64 lower-case hexadecimal digits")
    AbsolutePath = _text(
        r"(/[A-Za-z0-9._+-]*[A-Za-z0-9_+-][A-Za-z0-9._+-]*)+", "an absolute path in the image", limit=200
    )
    _EnvName = _text(r"(?!WIDESWE_)[A-Za-z_][A-Za-z0-9_]*", "a variable name that does not begin with WIDESWE_")
    Environment = Annotated[
        dict[_EnvName, Annotated[str, _matching(r"[^\0]*", "text without NUL", limit=4000)]],
        AfterValidator(lambda found: tuple(sorted(found.items()))),
        PlainSerializer(dict, return_type=dict[str, str]),
        WithJsonSchema({"type": "object", "additionalProperties": {"type": "string"}}),
    ]

Commit = Annotated[str, AfterValidator(check_commit), _schema("[0-9a-f]{40}")]
Repository = Annotated[str, AfterValidator(_repository), _schema(r"https://[^\s@]+")]
Instant = Annotated[str, AfterValidator(_instant), WithJsonSchema({"type": "string", "format": "date-time"})]
Glob = Annotated[str, AfterValidator(_guarded(parse_glob)), _schema(_RELATIVE)]
RecipeFile = Annotated[str, AfterValidator(_guarded(parse_relative)), _schema(_RELATIVE)]
RecipeFolder = Annotated[str, BeforeValidator(_folder), AfterValidator(_guarded(parse_relative)), _schema(_RELATIVE)]
Workdir = Annotated[str, AfterValidator(_guarded(_workdir)), _schema(_RELATIVE)]
Command = Annotated[str, AfterValidator(_command), _schema(r"[\s\S]*\S[\s\S]*")]
Seconds = Annotated[
    int,
    BeforeValidator(_guarded(_timeout)),
    PlainSerializer(format_duration, return_type=str),
    _schema("([0-9]+h)?([0-9]+m)?([0-9]+s)?", minLength=2),
]
MemoryBytes = Annotated[
    int,
    BeforeValidator(_guarded(_memory)),
    PlainSerializer(format_size, return_type=str),
    _schema("[0-9]+([KMGT](iB?)?|B)"),
]
Cpus = Annotated[int, Field(strict=True, ge=1, le=1024)]
Pids = Annotated[int, Field(strict=True, ge=16, le=4_194_304)]
Strip = Annotated[int, Field(strict=True, ge=0, le=8)]
