"""Protects values that hold secrets. Invariant: no `repr`, no pickle and no error for a wrong value shows the secret.

Pickles are refused because a pickle is a file or a message in plain text.
"""

from __future__ import annotations

from typing import Any, NoReturn, Self

from pykafka4.errors.frames import guarded

__all__ = ["Secret", "hidden", "refuse"]


def refuse(self: object, protocol: Any) -> NoReturn:
    """Raise TypeError. For classes with a secret, as their `__reduce_ex__`."""
    name = type(self).__name__
    raise TypeError(f"this {name} cannot be pickled, as that would show its secret: pass a function that makes one where it is used")


class Secret:
    """The base of values with a secret. Such a value cannot be pickled. A copy is the value itself."""

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        if "__init__" in vars(cls):  # attrs adds `__init__` when it makes the class again, with slots
            cls.__init__ = guarded(cls.__init__)  # type: ignore[method-assign]

    __reduce_ex__ = refuse

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self


def hidden(value: object) -> str:
    """The text of a secret in a `repr`: pass this function as the `repr` of an `attrs` field."""
    return "<hidden>"
