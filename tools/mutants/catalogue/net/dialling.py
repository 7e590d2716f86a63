"""Bugs of dialling, and of the choice of a transport."""

from __future__ import annotations

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
    Mutant(
        file="pykafka4/net/dialling.py",
        old="attempt.addresses.rotate(-next(self._rotation) if len(result) > 1 else 0)",
        new="pass",
        breaks="the first address of a name is always tried first",
        tests=("tests/net/test_dialling.py::test_the_addresses_of_a_name_rotate",),
    ),
    Mutant(
        file="pykafka4/net/dialling.py",
        old="    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)\n",
        new="",
        breaks="small requests wait for Nagle's algorithm",
        tests=("tests/net/test_dialling.py::test_small_requests_do_not_wait_for_each_other",),
    ),
    Mutant(
        file="pykafka4/net/dialling.py",
        old='                self._failed(attempt, f"no response within {ADDRESS_SECONDS:g} s")\n                self._next_address(attempt)',
        new="                pass",
        breaks="an address that does not answer keeps the next one waiting",
        tests=("tests/net/test_dialling.py::test_an_address_that_drops_packets_is_followed_by_the_next",),
    ),
)
