"""Which paths of a repository count: the globs of a recipe, over paths as git has them."""

from __future__ import annotations

from dataclasses import dataclass

from packager.recipe.globs import matches_any, parse_glob


@dataclass(frozen=True)
class Globs:
    """Which paths count: those that match one of `include` (empty: all) and none of `exclude`."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for glob in (*self.include, *self.exclude):
            parse_glob(glob, where="globs")

    def match(self, path: bytes) -> bool:
        """Return whether a path counts; bytes that are not UTF-8 match as surrogates."""
        text = path.decode("utf-8", "surrogateescape")
        return (not self.include or matches_any(self.include, text)) and not matches_any(self.exclude, text)


EVERYTHING = Globs()
