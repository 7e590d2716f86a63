"""Bugs of the transport on `selectors`."""

from __future__ import annotations

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
    Mutant(
        file="pykafka4/net/portable.py",
        old="                budget -= sent\n                advance(s.out, sent)",
        new="                budget -= sent\n                s.out.clear()",
        breaks="what the socket does not take at once is not written",
        tests=("tests/net/test_transport.py::test_what_does_not_fit_is_kept_in_order_until_it_does",),
    ),
    Mutant(
        file="pykafka4/net/portable.py",
        old="s.sock.send(s.out[0])",
        new="s.sock.send(s.out[-1])",
        breaks="without sendmsg, as on Windows, buffers are written in the wrong order",
        tests=("tests/net/test_transport.py::test_what_does_not_fit_is_kept_in_order_until_it_does",),
    ),
    Mutant(
        file="pykafka4/net/portable.py",
        old="        self._watch(s, READ | WRITE if s.out else READ)",
        new="        self._watch(s, READ)",
        breaks="nobody waits for a full socket",
        tests=("tests/net/test_transport.py::test_what_does_not_fit_is_kept_in_order_until_it_does",),
    ),
    Mutant(
        file="pykafka4/net/portable.py",
        old="                if got == 0:\n                    self._lose(s, end_of_stream(in_frame=s.view is not None or bool(s.head)))\n                    return\n",
        new="                if got == 0:\n                    return\n",
        breaks="the end of a connection is not noticed",
        tests=("tests/net/test_transport.py::test_the_end_of_a_connection_says_whether_an_answer_was_cut",),
    ),
    Mutant(
        file="pykafka4/net/portable.py",
        old="            self._events.append(Event(EventKind.FRAME, s.link, bytes(data[pos : pos + size])))\n            pos += size",
        new="            self._events.append(Event(EventKind.FRAME, s.link, data[pos : pos + size]))\n            pos += size",
        breaks="a frame is handed on in the buffer of the next one",
        tests=("tests/net/test_transport.py::test_frames_arrive_whole_however_they_are_cut",),
    ),
    Mutant(
        file="pykafka4/net/portable.py",
        old="            pos = missing\n",
        new="            pos = 0\n",
        breaks="a size that comes in two pieces is read twice",
        tests=("tests/net/test_transport.py::test_frames_arrive_whole_however_they_are_cut",),
    ),
    Mutant(
        file="pykafka4/net/transport.py",
        old='return caused_by(kind(f"{address}: {error}"), error)',
        new='return kind(f"{address}: {error}")',
        breaks="the reason for a refused frame is lost",
        tests=("tests/net/test_transport.py::test_a_frame_over_the_limit_is_refused_with_its_size",),
    ),
    Mutant(
        file="pykafka4/net/transport.py",
        old="kind = AuthenticationError if isinstance(error, PeerSpeaksTls) else ConnectionLost",
        new="kind = ConnectionLost",
        breaks="whoever connects to a port with TLS without it waits for the time-out",
        tests=("tests/net/test_transport.py::test_a_broker_that_speaks_tls_refuses_who_does_not",),
    ),
    Mutant(
        file="pykafka4/net/portable.py",
        old="        self._events = [event for event in self._events if event.link != link]  #",
        new="        pass  #",
        breaks="events follow the close of a connection",
        tests=("tests/net/test_secure_transport.py::test_no_event_follows_close_even_if_it_was_there",),
    ),
    Mutant(
        file="pykafka4/net/portable.py",
        old="            while budget > 0 and len(self._events) < limit:\n",
        new="            while budget > 0:\n",
        breaks="a turn takes any number of empty frames",
        tests=("tests/net/test_transport.py::test_a_turn_takes_no_more_than_so_many_frames",),
    ),
)
