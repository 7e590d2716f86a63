"""What a deliberate bug is, and how it is put into a source text. Invariant: a bug whose text is not there exactly once is refused."""

from __future__ import annotations

import attrs

__all__ = ["Mutant", "Stale"]

COMPILED = (".pyx", ".pxi", ".h")


class Stale(Exception):
    """The source has changed: the text that the mutant replaces is not there, or not once."""


@attrs.frozen
class Mutant:
    """One deliberate bug. `tests`: node ids, at least one of which must fail with it; all of them pass without it.

    `otherwise`: what is run when all of `tests` pass. Only mutations drawn by a tool have it: nobody has said which test notices them, and one
    with which the package cannot even be imported counts as noticed.

    In compiled sources the bug is chosen at run time, so that all are built at once: `new` is written with `{on}`, which stands for a C
    expression that is true when this mutant is on.
    """

    file: str
    old: str
    new: str
    breaks: str
    tests: tuple[str, ...]
    otherwise: tuple[str, ...] = ()

    @property
    def drawn(self) -> bool:
        """Whether a tool made it."""
        return bool(self.otherwise)

    @property
    def compiled(self) -> bool:
        """Whether the extension has to be built for it."""
        return self.file.endswith(COMPILED)

    def apply(self, source: str, on: str = "") -> str:
        """`source` with the bug in it. Raises Stale when it does not apply."""
        found = source.count(self.old)
        if found != 1:
            raise Stale(f"{self.file}: the text to replace is there {found} times: {self.old!r}")
        return source.replace(self.old, self.new.replace("{on}", on))
