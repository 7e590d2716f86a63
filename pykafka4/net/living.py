"""Keeps weak references to the living objects of a kind.

Invariant: a `Living` runs no Python code when one of its objects is freed. The interpreter swallows exceptions at that point, and Ctrl-C
would be lost. So this is not a WeakSet, whose callback is a Python function.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Generic, TypeVar

__all__ = ["Living"]

T = TypeVar("T")


class Living(Generic[T]):
    """A set that does not keep its objects alive. For any thread."""

    __slots__ = ("_references",)

    def __init__(self) -> None:
        self._references: dict[weakref.ref[T], None] = {}

    def add(self, item: T) -> None:
        self._references[weakref.ref(item, self._references.__delitem__)] = None

    def discard(self, item: T) -> None:
        self._references.pop(weakref.ref(item), None)

    def __iter__(self) -> Iterator[T]:
        return iter([item for reference in list(self._references) if (item := reference()) is not None])
