"""The common base of the public clients. Invariant: no handle is pickled, and a name that it lacks is answered with a hint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from pykafka4.misuse import refuse_pickling
from pykafka4.other_clients.tables import method_hint

__all__ = ["Handle"]


class Handle:
    """A client, producer, consumer or admin client as applications know it."""

    _name: ClassVar[str]

    if not TYPE_CHECKING:  # a type checker would accept every name

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(method_hint(self._name, name, dir(type(self))))

    def __reduce__(self) -> Any:
        return refuse_pickling(self._name)
