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
    Mutant(
        file="pykafka4/net/dialling.py",
        old="        elif (waiting := self._lookups.get((host, port))) is not None:\n",
        new="        elif (waiting := None) is not None:\n",
        breaks="each connection to a name looks it up",
        tests=("tests/net/test_dialling.py::test_connections_to_one_name_share_a_look_up",),
    ),
    Mutant(
        file="pykafka4/net/dialling.py",
        old="        if (address := _ip_address(host, port)) is not None:\n",
        new="        if (address := None) is not None:\n",
        breaks="addresses are looked up",
        tests=("tests/net/test_dialling.py::test_an_address_is_connected_to_without_looking_it_up",),
    ),
    Mutant(
        file="pykafka4/net/dialling.py",
        old="                if attempt in waiting:\n                    waiting.remove(attempt)\n",
        new="                pass\n",
        breaks="a connection that was given up is made all the same",
        tests=("tests/net/test_dialling.py::test_attempts_that_were_given_up_do_not_queue_look_ups",),
    ),
    Mutant(
        file="pykafka4/net/dialling.py",
        old="        if waiting and found is SKIPPED:",
        new="        if False and found is SKIPPED:",
        breaks="a connection that is asked for while a look-up is skipped is never made",
        tests=("tests/net/test_dialling.py::test_a_connection_requested_after_a_skipped_look_up_gets_one",),
    ),
    Mutant(
        file="pykafka4/net/dialling.py",
        old="            self._failed(attempt, os.strerror(code).lower())\n            self._next_address(attempt)\n            return\n",
        new="            self._failed(attempt, os.strerror(code).lower())\n            self._end(attempt, attempt.errors[-1])\n            return\n",
        breaks="an address that refuses late is the last",
        tests=("tests/net/test_dialling.py::test_an_address_that_refuses_later_is_followed_by_the_next",),
    ),
    Mutant(
        file="pykafka4/net/dialling.py",
        old='"; ".join(dict.fromkeys(attempt.errors)) or',
        new="attempt.errors[-1] or",
        breaks="only the last address of a name is named",
        tests=("tests/net/test_dialling.py::test_the_addresses_of_a_name_rotate",),
    ),
    Mutant(
        file="pykafka4/net/dialling.py",
        old="min(timeout, max(0.0, min(times) - monotonic())) if times else timeout",
        new="timeout",
        breaks="a loop sleeps although the next address is to be tried",
        tests=("tests/net/test_dialling.py::test_a_wait_ends_when_the_next_address_is_to_be_tried",),
    ),
    Mutant(
        file="pykafka4/net/dialling.py",
        old="        if self.finished:\n            return 0.0\n",
        new="",
        breaks="a loop sleeps although a connection has failed",
        tests=("tests/net/test_dialling.py::test_an_outcome_that_is_known_keeps_select_from_sleeping",),
    ),
    Mutant(
        file="pykafka4/net/dialling.py",
        old="monotonic() + ADDRESS_SECONDS if attempt.addresses else None",
        new="monotonic() + ADDRESS_SECONDS",
        breaks="the only address has two seconds",
        tests=("tests/net/test_dialling.py::test_a_wait_ends_when_the_next_address_is_to_be_tried",),
    ),
    Mutant(
        file="pykafka4/net/dialling.py",
        old="        for attempt in self._attempts.values():\n            if attempt.sock is not None:\n                attempt.sock.close()\n",
        new="",
        breaks="a forked child keeps a socket open that its parent dials with",
        tests=("tests/net/test_transport_ends.py::test_a_forked_child_abandons_its_copy_and_the_parent_goes_on",),
    ),
    Mutant(
        file="pykafka4/net/dialling.py",
        old="        self._unwatch(link, attempt.sock)\n        self._connecting",
        new="        self._connecting",
        breaks="an open connection is watched twice",
        tests=("tests/net/test_transport.py::test_a_large_frame_grows_as_its_bytes_come",),
    ),
    Mutant(
        file="pykafka4/net/dialling.py",
        old="    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)\n",
        new="",
        breaks="a peer that vanished is never noticed",
        tests=("tests/net/test_dialling.py::test_a_peer_that_vanished_is_noticed_some_day",),
    ),
    Mutant(
        file="pykafka4/net/dialling.py",
        old="            except (ValueError, OverflowError) as error:",
        new="            except ValueError as error:",
        breaks="a port that is none crashes the loop",
        tests=("tests/net/test_dialling.py::test_an_address_that_cannot_be_one_is_a_lost_connection",),
    ),
    Mutant(
        file="pykafka4/net/dialling.py",
        old='f"[{host}]:{port}" if ":" in host else f"{host}:{port}"',
        new='f"{host}:{port}"',
        breaks="an address of IPv6 cannot be told from its port",
        tests=("tests/net/test_dialling.py::test_an_address_of_ipv6_is_named_in_brackets",),
    ),
    Mutant(
        file="pykafka4/net/transports.py",
        old='    if wanted not in {None, "", "pump", "portable"}:\n',
        new="    if False:\n",
        breaks="a wrong PYKAFKA4_LOOP is ignored",
        tests=("tests/net/test_transports.py::test_what_is_no_transport_is_named",),
    ),
    Mutant(
        file="pykafka4/net/transports.py",
        old='    if wanted == "portable":\n',
        new="    if False:\n",
        breaks="PYKAFKA4_LOOP=portable is ignored",
        tests=("tests/net/test_transports.py::test_the_portable_transport_is_used_where_it_is_asked_for",),
    ),
    Mutant(
        file="pykafka4/net/transports.py",
        old="        if wanted:\n            raise\n",
        new="        pass\n",
        breaks="who asks for the pump does not hear that it was not built",
        tests=("tests/net/test_transports.py::test_who_asks_for_the_pump_gets_it_or_an_error",),
    ),
    Mutant(
        file="pykafka4/net/transports.py",
        old='    if not getattr(sys, "_is_gil_enabled", lambda: True)():\n',
        new="    if False:\n",
        breaks="the pump is used without the GIL",
        tests=("tests/net/test_transports.py::test_the_pump_is_not_used_without_the_gil",),
    ),
)
