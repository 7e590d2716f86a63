"""The search finds a secret in whatever form it comes out; otherwise the other tests here would test nothing."""

from __future__ import annotations

import base64
import json
import logging
import urllib.parse
from collections.abc import Callable

import attrs
import pytest

from tests.secrets.outlets import Outlets
from tests.secrets.planted import Planted

FORMS: list[Callable[[str], str]] = [
    str,
    repr,
    lambda secret: repr(secret.encode()),
    lambda secret: repr(bytearray(secret.encode())),
    json.dumps,
    urllib.parse.quote,
    urllib.parse.quote_plus,
    lambda secret: secret.encode().hex(),
    lambda secret: secret.encode().hex().upper(),
    lambda secret: secret[:24],
    lambda secret: secret[-24:],
    *[lambda secret, before=before: base64.b64encode(f"{'u' * before}:{secret}:more".encode()).decode() for before in range(6)],
    lambda secret: base64.urlsafe_b64encode(secret.encode()).decode().rstrip("="),
]


@pytest.fixture
def planted() -> Planted:
    return Planted()


@pytest.mark.parametrize("form", FORMS)
def test_a_secret_is_found_in_every_form(planted: Planted, form: Callable[[str], str]) -> None:
    secret, other = planted.plant("password"), Planted().plant("of another test")
    assert planted.found(f"x{form(secret)}y") == {"password"}
    assert planted.found(f"x{form(other)}y") == set()


def test_a_derived_key_is_found(planted: Planted) -> None:
    key = bytes(range(200, 232))
    planted.derive("key", key)
    for text in (repr(key), key.hex(), base64.b64encode(key).decode(), repr([key])):
        assert planted.found(text) == {"key"}


def outlets(planted: Planted) -> Outlets:
    return Outlets(planted)


@attrs.define
class Careless:
    """Shows its password."""

    __module__ = "pykafka4.careless"
    password: str


def test_an_error_is_searched_with_chain_notes_attributes_and_locals(planted: Planted) -> None:
    secrets = {name: planted.plant(name) for name in ("message", "cause", "context", "note", "attribute", "local")}

    def fail() -> None:
        namespace: dict[str, object] = {"__name__": "pykafka4.made", "word": secrets["local"]}
        exec("def fail(given):\n    raise KeyError('x')\n", namespace)  # a frame of the package
        namespace["fail"](secrets["local"])  # type: ignore[operator]

    try:
        try:
            fail()
        except KeyError:
            raise ValueError(secrets["context"]) from KeyError(secrets["cause"])
    except ValueError as error:
        outer = RuntimeError(secrets["message"])
        outer.add_note(secrets["note"])
        outer.told = {"x": secrets["attribute"]}  # type: ignore[attr-defined]
        outer.__context__ = error
        found = outlets(planted)
        found.error("here", outer)
    assert {name for line in found.leaks() for name in line.partition(":")[0].split(", ")} == set(secrets)
    assert any("local given of fail" in line for line in found.leaks())


def test_locals_of_the_application_are_its_own(planted: Planted) -> None:
    def fail(word: str) -> None:
        raise ValueError

    with pytest.raises(ValueError) as caught:
        fail(planted.plant("password"))
    found = outlets(planted)
    found.error("here", caught.value)
    assert found.leaks() == []


def test_an_object_that_can_be_reached_is_searched(planted: Planted) -> None:
    found, hidden = outlets(planted), Careless(planted.plant("password"))
    assert found.objects("a function", [{"x": (lambda: hidden,)}]) == 1
    assert "password: a function: a Careless: repr" in found.leaks()


def test_a_log_record_is_searched(planted: Planted) -> None:
    found, log = outlets(planted), logging.getLogger("pykafka4.test-planted")
    log.addHandler(found)
    log.setLevel(1)
    try:
        log.debug("%s", planted.plant("argument"))
        log.debug("x", extra={"options": planted.plant("extra")})
        log.debug("x", exc_info=ValueError(planted.plant("exc_info")))
    finally:
        log.removeHandler(found)
    assert {line.partition(":")[0] for line in found.leaks()} == {"argument", "extra", "exc_info"}
