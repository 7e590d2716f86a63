"""A port has one owner."""

from __future__ import annotations

import socket

import pytest

from integration.host.ports import HOST, LOWEST, Ports, highest


def test_a_taken_port_cannot_be_listened_on_until_it_is_released() -> None:
    ports = Ports()
    port = ports.take()
    assert LOWEST <= port < highest()
    with pytest.raises(OSError, match="in use"):
        socket.create_server((HOST, port), reuse_port=False)
    ports.release(port)
    socket.create_server((HOST, port)).close()
    ports.close()


def test_two_blocks_never_overlap() -> None:
    blocks = [Ports() for _ in range(20)]
    taken = [ports.take() for ports in blocks for _ in range(3)]
    assert len(set(taken)) == len(taken)
    assert len({ports.end for ports in blocks}) == len(blocks)
    for ports in blocks:
        ports.close()


def test_a_port_in_use_is_skipped() -> None:
    ports = Ports()
    with socket.create_server((HOST, ports.next)) as other:
        assert ports.take() == other.getsockname()[1] + 1
    ports.close()
