"""The choice of a transport: the pump if it was built, what PYKAFKA4_LOOP asks for, and never the pump without the GIL."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

import pytest

from pykafka4.net import transports
from pykafka4.net.portable import PortableTransport
from tests.net.transport_driver import KINDS

built = pytest.mark.skipif("pump" not in KINDS, reason="the pump is compiled, on Linux only")


@pytest.fixture
def not_built(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> ModuleType:
        raise ImportError(f"no {name}")

    monkeypatch.setattr(importlib, "import_module", fail)


@built
@pytest.mark.parametrize("wanted", [None, "", "pump"])
def test_the_pump_is_used_if_it_was_built(wanted: str | None) -> None:
    name, opener = transports.choose(wanted)
    assert (name, getattr(opener, "__name__", "")) == ("pump", "PumpTransport")


@pytest.mark.parametrize("wanted", [None, ""])
def test_without_the_pump_the_portable_transport_is_used(not_built: None, wanted: str | None) -> None:
    assert transports.choose(wanted) == ("portable", PortableTransport)


def test_the_portable_transport_is_used_where_it_is_asked_for() -> None:
    assert transports.choose("portable") == ("portable", PortableTransport)


def test_who_asks_for_the_pump_gets_it_or_an_error(not_built: None) -> None:
    with pytest.raises(ImportError, match=r"no pykafka4\.net\.pump\.transport"):
        transports.choose("pump")


@pytest.mark.parametrize("wanted", ["Pump", "epoll", "0"])
def test_what_is_no_transport_is_named(wanted: str) -> None:
    with pytest.raises(ImportError, match=f"PYKAFKA4_LOOP='{wanted}' must be pump, portable or unset"):
        transports.choose(wanted)


def test_the_pump_is_not_used_without_the_gil(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    assert transports.choose(None) == ("portable", PortableTransport)
    with pytest.raises(ImportError, match="relies on the GIL"):
        transports.choose("pump")
