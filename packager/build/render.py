"""Lock and recipe to Dockerfile: what a person reads, and what the engines execute, is the same text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base.errors import InputError
from packager.build.commands import dependency_command, in_build_order, prepare_command
from packager.oci.entries import SOURCE_DATE_EPOCH

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from packager.recipe.model import Recipe

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def toolchain_kinds(recipe: Recipe) -> tuple[str, ...]:
    """Return the kinds of toolchains that any target asks for, in a fixed order."""
    return tuple(sorted({kind for target in recipe.targets for kind, wish in target.toolchain if wish is not None}))


def template_path(folder: Path, recipe: Recipe) -> Path:
    """Return the recipe's template in the images folder, or raise InputError."""
    path = folder / recipe.template
    if not path.is_file():
        known = ", ".join(sorted(found.name for found in folder.glob("*.j2"))) or "none"
        raise InputError(f"template {recipe.template!r} does not exist", where=recipe.id, hint=f"templates: {known}")
    return path


def render_dockerfile(recipe: Recipe, *, template: str, platform: str, sealed: bool, gold: Collection[str] = ()) -> str:
    """Return the Dockerfile of a recipe for one platform; with `sealed`, the answer is one of its layers.

    `gold` names the targets whose gold changes what their dependency commands read.
    """
    import jinja2  # noqa: PLC0415 - only a build that has something to do renders

    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - the output is a Dockerfile, not a page
    )
    toolchains = toolchain_kinds(recipe)
    path = ":".join((*(f"/opt/toolchains/{kind}/bin" for kind in toolchains), _PATH))
    targets = [
        {
            "name": target.name,
            "manifests": bool(target.manifests),
            "gold": target.name in gold,
            "shared_history": not isinstance(target.history, str),
            "dependencies": dependency_command(target),
            "prepare": prepare_command(recipe, target),
        }
        for target in in_build_order(recipe)
    ]
    try:
        return environment.from_string(template).render(
            task=recipe.id,
            platform=platform,
            base_image=recipe.base.image,
            epoch=SOURCE_DATE_EPOCH,
            path=path,
            toolchains=[f"toolchain-{kind}" for kind in toolchains],
            targets=targets,
            environment=" AS environment" if gold else "",
            contexts=[context.name for context in recipe.contexts],
            sealed=sealed,
        )
    except jinja2.TemplateError as error:
        raise InputError(f"template does not render: {error}", where=recipe.template) from error
