"""The method `Producer.send` of the plain-Python core: see `compiled/_method.pxi`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["send_method"]


class send_method:  # noqa: N801  # a decorator
    """On an instance its attribute `_send`; on the class the decorated function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.__wrapped__ = function

    def __get__(self, owner: Any, kind: type[Any]) -> Callable[..., Any]:
        function: Callable[..., Any] = self.__wrapped__ if owner is None else owner._send
        return function

    def __call__(self, *args: Any, **how: Any) -> Any:
        return self.__wrapped__(*args, **how)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__wrapped__, name)

    @property  # type: ignore[misc]
    def __class__(self) -> type[Any]:
        return type(self.__wrapped__)
