"""Credentials. Rule: `repr` and errors hide the password, and it is pickled nowhere: a pickle is a file or a message in plain text.

What is invalid is a ConfigError that names the value and its type, never the value itself.
"""

from __future__ import annotations

from typing import Any, NoReturn, Self

import attrs

from pykafka4.core.sasl.salted import Salted
from pykafka4.errors import ConfigError

__all__ = ["SaslCredentials", "Secret", "hidden", "text_of"]


class Secret:
    """A value that cannot be pickled. A copy is the value itself, as it never changes."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        name = type(self).__name__
        raise TypeError(f"a {name} cannot be pickled, as that would show its secret: pass a function that returns one where it is used")

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self


def hidden(value: object) -> str:
    """What `repr` shows of a secret."""
    return "<hidden>"


def text_of(value: object, what: str) -> str:
    """`value` as a plain str if it is text that UTF-8 can encode, and not empty. Otherwise ConfigError, which calls it `what`."""
    if not isinstance(value, str):
        raise ConfigError(f"{what} must be a str, not {type(value).__name__}")
    text = str.__str__(value)  # of a subclass, whatever its methods return
    if not text:
        raise ConfigError(f"{what} is empty; check where it is read from")
    if any("\ud800" <= character <= "\udfff" for character in text):  # looked for here, as the error of `encode` would hold the value
        raise ConfigError(f"{what} has a lone surrogate, which UTF-8 cannot encode; decode it as UTF-8 where it is read")
    return text


def _username(value: str) -> str:
    return text_of(value, "the SASL user name")


def _password(value: str) -> str:
    return text_of(value, "the SASL password")


@attrs.frozen
class SaslCredentials(Secret):
    """User name and password, for PLAIN and SCRAM."""

    username: str = attrs.field(converter=_username)
    password: str = attrs.field(converter=_password, repr=hidden)
    salted: Salted = attrs.field(factory=Salted, init=False, repr=False, eq=False)  # here, so that all connections share it
