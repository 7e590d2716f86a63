"""Which package computes CRC-32C for the plain-Python core, and that the compiled one needs none of them."""

from __future__ import annotations

import logging
import subprocess
import sys
import types
from collections.abc import Iterator

import pytest

from pykafka4.testing import ModelServer
from pykafka4.wire.records import checksum, hot
from tests.inspection import forget_codecs

# RFC 3720, appendix B.4, and the check value that catalogues of CRCs give.
VECTORS = [
    (b"", 0),
    (b"123456789", 0xE3069283),
    (bytes(32), 0x8A9136AA),
    (b"\xff" * 32, 0x62A8AB43),
    (bytes(range(32)), 0x46DD794E),
    (bytes(range(31, -1, -1)), 0x113FDB5C),
]


@pytest.fixture(autouse=True)
def fresh_choice() -> Iterator[None]:
    forget_codecs()
    yield
    forget_codecs()


@pytest.fixture
def without_google(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google_crc32c", None)


@pytest.fixture
def crcmod_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """crcmod as it is installed without a compiler."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "crcmod"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "crcmod._crcfunext", None)


def check_vectors() -> None:
    for data, wanted in VECTORS:
        for cut in range(len(data) + 1):
            assert checksum.crc32c(memoryview(data)[cut:], checksum.crc32c(data[:cut])) == wanted


def test_google_crc32c_is_taken_where_it_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("google_crc32c")
    monkeypatch.setitem(sys.modules, "crcmod", None)
    check_vectors()


def test_crcmod_is_enough(without_google: None, caplog: pytest.LogCaptureFixture) -> None:
    check_vectors()
    assert caplog.text == ""


def test_a_google_crc32c_in_pure_python_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google_crc32c", types.SimpleNamespace(implementation="python"))
    check_vectors()


def test_checksums_in_pure_python_are_logged_once(without_google: None, crcmod_in_python: None, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "pykafka4"):
        check_vectors()
    assert caplog.text.count("pip install 'pykafka4[crc32c]'") == 1


CLIENT = """
import sys
for name in ("crcmod", "google_crc32c"):
    sys.modules[name] = None
from pykafka4 import Consumer, Producer
from pykafka4.wire.records import hot
assert hot.IMPLEMENTATION == "compiled"
with Producer(bootstrap_servers=sys.argv[1]) as producer:
    producer.send("t", b"value").result(10)
with Consumer(bootstrap_servers=sys.argv[1], auto_offset_reset="earliest") as consumer:
    consumer.assign([("t", 0)])
    print(next(iter(consumer)).value.decode())
"""


@pytest.mark.skipif(hot.IMPLEMENTATION != "compiled", reason="the compiled core is not built, or not used")
def test_the_compiled_core_needs_no_package_for_checksums() -> None:
    with ModelServer() as server:
        server.create_topic("t", partitions=1)
        command = [sys.executable, "-c", CLIENT, server.bootstrap_servers]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("value\n", "")
