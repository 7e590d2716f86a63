"""User name and password."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from pykafka4.core.sasl.credentials import SaslCredentials
from pykafka4.errors import ConfigError
from tests.core.sasl.sasl_peer import assert_hidden, shown


def test_neither_user_name_nor_password_is_shown() -> None:
    credentials = SaslCredentials("alice", "hunter2")
    keys = credentials.salted.derive("sha256", b"hunter2", b"salt", 1)
    assert repr(credentials) == str(credentials) == "SaslCredentials(username=<hidden>, password=<hidden>)"
    assert repr(credentials.salted) == "<Salted: 1 keys>"
    assert "b'" not in repr(keys)


def test_equal_credentials_are_equal_whatever_is_derived() -> None:
    used = SaslCredentials("alice", "hunter2")
    used.salted.derive("sha256", b"hunter2", b"salt", 1)
    assert used == SaslCredentials("alice", "hunter2")
    assert hash(used) == hash(SaslCredentials("alice", "hunter2"))
    assert used != SaslCredentials("alice", "hunter3")


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_they_are_not_pickled(protocol: int) -> None:
    with pytest.raises(TypeError, match=r"this SaslCredentials cannot be pickled.* pass a function") as caught:
        pickle.dumps({"sasl": SaslCredentials("alice", "hunter2")}, protocol)
    assert_hidden(shown(caught.value), "hunter2")


def test_a_copy_is_the_same_object_as_it_cannot_change() -> None:
    credentials = SaslCredentials("alice", "hunter2")
    assert copy.copy(credentials) is credentials
    assert copy.deepcopy({"sasl": credentials})["sasl"] is credentials
    with pytest.raises(AttributeError):
        credentials.password = "another"  # type: ignore[misc]


class Loud(str):
    def __str__(self) -> str:
        return "loud"

    __repr__ = __str__


def test_a_subclass_of_str_counts_by_its_text() -> None:
    password = SaslCredentials("alice", Loud("hunter2")).password
    assert (type(password), password) == (str, "hunter2")


@pytest.mark.parametrize(
    ("username", "password", "why"),
    [
        (b"hunter2", "hunter2", "the SASL user name must be a str, not bytes"),
        ("alice", b"hunter2", "the SASL password must be a str, not bytes"),
        ("alice", None, "the SASL password must be a str, not NoneType"),
        ("", "hunter2", "the SASL user name is empty"),
        ("alice", "", "the SASL password is empty"),
        ("alice", "hunter2\ud800", "the SASL password has a lone surrogate"),
        ("\udfffalice", "hunter2", "the SASL user name has a lone surrogate"),
    ],
)
def test_what_is_no_user_name_or_password(username: Any, password: Any, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as caught:
        SaslCredentials(username, password)
    assert_hidden(shown(caught.value), "hunter2")
