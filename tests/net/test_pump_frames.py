"""The pump: what only the compiled transport has, its pool of blocks and its frames."""

from __future__ import annotations

import ctypes
import gc
import socket
from typing import Any

import pytest

from tests.net.net_helpers import serving
from tests.net.transport_driver import FRAME, KINDS, Driver, framed

if "pump" not in KINDS:
    pytest.skip("the pump is not built here", allow_module_level=True)

from pykafka4.net.pump._pump import Frame


class View(ctypes.Structure):
    """The first fields of a Py_buffer, and room for the others."""

    _fields_ = (("buf", ctypes.c_void_p), ("obj", ctypes.py_object), ("rest", ctypes.c_char * 128))


def address_of(data: Any) -> int:
    """Where the bytes of `data` are."""
    view = View()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(data), ctypes.byref(view), 0)
    address: int = view.buf
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(view))
    return address


def test_blocks_that_fit_no_frame_any_more_do_not_keep_others_from_being_used_again() -> None:
    driver = Driver("pump")
    sizes = [20_000, 1_000_000, 1_000_000, 1_000_000]

    def answer(connection: socket.socket) -> None:
        for size in sizes:
            connection.recv(1)
            connection.sendall(framed(b"x" * size))

    addresses = []
    with serving(answer) as port:
        driver.connect(port)
        for size in sizes:
            driver.transport.write(1, [b"."], False)
            (frame,) = driver.until(FRAME)
            assert len(frame) == size
            addresses.append(address_of(frame))
            driver.events.clear()
            del frame
    driver.transport.shut()
    assert addresses[1] == addresses[2] == addresses[3]


def test_a_frame_that_no_pump_has_made_is_empty() -> None:
    frame = Frame()
    assert len(frame) == 0
    with pytest.raises(BufferError):
        memoryview(frame)
    del frame
    gc.collect()
