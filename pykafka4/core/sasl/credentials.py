"""Checks and keeps a user name and a password. Invariant: no `repr`, no error and no pickle shows either.

An invalid user name or password raises ConfigError, which says why, but not the value.
"""

from __future__ import annotations

import attrs

from pykafka4.core.sasl.salted import Salted
from pykafka4.errors import ConfigError
from pykafka4.options.secret import Secret, hidden

__all__ = ["SaslCredentials", "text_of"]


def text_of(value: object, what: str) -> str:
    """`value` as a plain str. Raises ConfigError, which names `what`, if `value` is not a str, is empty, or cannot become UTF-8."""
    if not isinstance(value, str):
        raise ConfigError(f"{what} must be a str, not {type(value).__name__}")
    text = str.__str__(value)  # a subclass of str may have methods that return another text
    if not text:
        raise ConfigError(f"{what} is empty; check where it is read from")
    if any("\ud800" <= character <= "\udfff" for character in text):  # `encode` would raise an error that holds the value
        raise ConfigError(f"{what} has a lone surrogate, which UTF-8 cannot encode; decode it as UTF-8 where it is read")
    return text


def _username(value: str) -> str:
    return text_of(value, "the SASL user name")


def _password(value: str) -> str:
    return text_of(value, "the SASL password")


@attrs.frozen
class SaslCredentials(Secret):
    """User name and password for PLAIN and SCRAM. `is_token`: whether they are the id and the secret of a delegation token."""

    username: str = attrs.field(converter=_username, repr=hidden)
    password: str = attrs.field(converter=_password, repr=hidden)
    is_token: bool = attrs.field(default=False, repr=False)
    salted: Salted = attrs.field(factory=Salted, init=False, repr=False, eq=False)  # all connections share the derived keys
