"""Writes what a task's dependency steps fetch as files, with a small server: other engines build with them offline."""

from __future__ import annotations

import shlex
import shutil
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from packager.base.canonical import format_readable
from packager.base.digests import digest_of, hex_of
from packager.base.errors import InputError
from packager.base.files import write_atomic
from packager.build import serve
from packager.build.record import dependency_steps
from packager.lock.ecosystems import web
from packager.sandbox.identity import ROOM_IN_TREE, proxy_environment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packager.build.task import TaskBuild
    from packager.sandbox.fetches import Answer, FetchSource, Request

FOLDER = "replay"
DOCKERFILE = f"Dockerfile.{FOLDER}"


@dataclass
class Overheard:
    """A source of fetches that remembers every answer by URL and by what the client accepts."""

    source: FetchSource
    answers: dict[tuple[str, str], Answer] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, request: Request) -> Answer:
        """Answer as the source does."""
        found = self.source.answer(request)
        url = web.url_of(request.scheme, request.host, request.port, request.path)
        with self._lock:
            self.answers[url, request.headers.get("accept", "")] = found
        return found

    def environment(self) -> Mapping[str, str]:
        """Return the source's variables."""
        return self.source.environment()


def write_fetches(task_build: TaskBuild, folder: Path) -> tuple[str, ...]:
    """Run the dependency steps offline, write what they were answered, and return the names of what was written."""
    builder, instructions = task_build.builder(), task_build.instructions(sealed=False)
    steps = dependency_steps(instructions)
    if not steps:
        return ()
    last = max(number for number, found in enumerate(instructions) if found.step in steps)
    heard = {step: Overheard(builder.fetches[step].source) for step in sorted(steps)}
    fetches = {step: replace(builder.fetches[step], source=source) for step, source in heard.items()}
    replace(builder, fetches=fetches, fresh=steps).build(instructions[: last + 1])
    answers = {key: found for source in heard.values() for key, found in source.answers.items()}
    write_answers(answers, folder / FOLDER)
    variables = {step: source.environment() for step, source in heard.items()}
    write_atomic(folder / DOCKERFILE, with_variables(task_build.dockerfile(sealed=False), variables).encode())
    return (DOCKERFILE, f"{FOLDER}/answers.json", f"{FOLDER}/serve.py")


def with_variables(dockerfile: str, by_step: Mapping[str, Mapping[str, str]]) -> str:
    """Return a Dockerfile whose named steps see the variables that lead to the server; the image keeps none of them."""
    lines, step = [], ""
    for line in dockerfile.splitlines():
        if line.startswith("RUN ") and step in by_step:
            shown = {**by_step[step], **proxy_environment()}
            words = (f"{name}={shlex.quote(text)}" for name, text in sorted(shown.items()) if ROOM_IN_TREE not in text)
            lines.append(f"RUN export {' '.join(words)}; {line.removeprefix('RUN ')}")
        else:
            lines.append(line)
        step = line.removeprefix("# step: ") if line.startswith("# step: ") else ""
    return "\n".join(lines) + "\n"


def write_answers(answers: Mapping[tuple[str, str], Answer], folder: Path) -> None:
    """Write answers and the server; what was asked for over TLS is an InputError."""
    rows = []
    for (url, accept), answer in sorted(answers.items()):
        if not url.startswith("http://"):
            raise InputError(
                f"a step fetches {url} over TLS, which a plain server cannot answer",
                where="render",
                hint="build it with wideswe-pack; every engine gives the same content id",
            )
        name = f"bodies/{_body_name(answer)}"
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(answer.body, Path):
            shutil.copyfile(answer.body, place)
        else:
            write_atomic(place, answer.body)
        rows.append(
            {"url": url, "accept": accept, "status": str(answer.status), "type": answer.media_type, "body": name}
        )
    write_atomic(folder / "answers.json", format_readable(rows))
    shutil.copyfile(serve.__file__, folder / "serve.py")


def _body_name(answer: Answer) -> str:
    """Return the digest of a body; a file of the store is named by its own."""
    return answer.body.name if isinstance(answer.body, Path) else hex_of(digest_of(answer.body))
