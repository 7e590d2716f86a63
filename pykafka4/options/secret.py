"""Secret. Rule: what holds a secret shows it in no `repr`, is pickled nowhere, and leaves nothing of it in the error for a wrong value.

A pickle is a file or a message in plain text.
"""

from __future__ import annotations

from typing import Any, NoReturn, Self

from pykafka4.errors.frames import guarded

__all__ = ["Secret", "hidden", "refuse"]


def refuse(self: object, protocol: Any) -> NoReturn:
    """`__reduce_ex__` of a class."""
    name = type(self).__name__
    raise TypeError(f"a {name} cannot be pickled, as that would show its secret: pass a function that returns one where it is used")


class Secret:
    """A value that cannot be pickled. A copy is the value itself, as it never changes."""

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        if "__init__" in vars(cls):  # attrs adds it when it makes the class again, with slots
            cls.__init__ = guarded(cls.__init__)  # type: ignore[method-assign]

    __reduce_ex__ = refuse

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self


def hidden(value: object) -> str:
    """What `repr` shows of a secret."""
    return "<hidden>"
