"""Bugs of the transport for TLS."""

from __future__ import annotations

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

TRANSPORT: Final = "pykafka4/net/secure.py"
OF_TRANSPORT: Final = "tests/net/test_secure_transport.py::test_"
OF_CERTIFICATES: Final = "tests/net/test_secure_certificates.py::test_"
OF_BYTES: Final = "tests/net/test_secure_bytes.py::test_"
OF_ENDS: Final = "tests/net/test_secure_ends.py::test_"

MUTANTS: Final = (
    Mutant(
        file=TRANSPORT,
        old='        self._shaking[s] = b""\n        self._shake(s)\n',
        new='        self._shaking[s] = b""\n        self._shake(s)\n        self._events.append(Event(EventKind.CONNECTED, s.link))\n',
        breaks="CONNECTED is reported before the handshake",
        tests=(f"{OF_TRANSPORT}connected_is_reported_after_the_handshake",),
    ),
    Mutant(
        file=TRANSPORT,
        old="            dialled.sock.getpeername()  #",
        new="            pass  #",
        breaks="a socket whose peer is gone is left to the garbage collector",
        tests=(f"{OF_TRANSPORT}a_peer_that_is_gone_before_the_handshake_leaves_nothing",),
    ),
    Mutant(
        file=TRANSPORT,
        old="        except (OSError, ValueError) as error:\n            dialled.sock.close()\n",
        new="        except OSError as error:\n            dialled.sock.close()\n",
        breaks="a name that no certificate can have crashes the loop",
        tests=(f"{OF_CERTIFICATES}a_name_that_no_certificate_can_have_is_a_lost_connection",),
    ),
    Mutant(
        file=TRANSPORT,
        old="            dialled.sock.close()\n            self._events.append",
        new="            self._events.append",
        breaks="a socket whose handshake cannot begin stays open",
        tests=(f"{OF_TRANSPORT}a_peer_that_is_gone_before_the_handshake_leaves_nothing",),
    ),
    Mutant(
        file=TRANSPORT,
        old='    if not name or "\\0" in name:\n',
        new="    if not name:\n",
        breaks="a NUL in a name crashes the loop",
        tests=(f"{OF_CERTIFICATES}a_name_that_no_certificate_can_have_is_a_lost_connection",),
    ),
    Mutant(
        file=TRANSPORT,
        old='host.rstrip(".").encode("idna")',
        new='host.encode("idna")',
        breaks="a dot at the end of a name belongs to it",
        tests=(f"{OF_CERTIFICATES}the_certificate_must_contain_the_name_that_was_dialled",),
    ),
    Mutant(
        file=TRANSPORT,
        old='host.partition("%")[0] if ":" in host',
        new='host if ":" in host',
        breaks="the zone of an address belongs to the name",
        tests=(f"{OF_CERTIFICATES}a_zone_is_no_part_of_the_name",),
    ),
    Mutant(
        file=TRANSPORT,
        old="            self._shaking[s] = _peek(sock, HEARD)  #",
        new="                pass  #",
        breaks="what another protocol says is not heard",
        tests=(f"{OF_TRANSPORT}what_does_not_speak_tls_is_named",),
    ),
    Mutant(
        file=TRANSPORT,
        old="            self._sessions.forget(s.target)\n",
        new="            pass\n",
        breaks="a session that makes handshakes fail is used for ever",
        tests=(f"{OF_TRANSPORT}a_session_is_forgotten_when_a_handshake_fails",),
    ),
    Mutant(
        file=TRANSPORT,
        old="            self._sessions.keep(sock.context, s.target, sock.session)\n",
        new="            pass\n",
        breaks="no session is resumed",
        tests=(f"{OF_TRANSPORT}the_next_connection_resumes_the_session_until_the_files_change",),
    ),
    Mutant(
        file=TRANSPORT,
        old="            self._context = context\n            self._kept.clear()\n",
        new="            self._context = context\n",
        breaks="a session of another context is offered",
        tests=(f"{OF_TRANSPORT}the_next_connection_resumes_the_session_until_the_files_change",),
    ),
    Mutant(
        file=TRANSPORT,
        old=" or not (session.has_ticket or session.id):",
        new=":",
        breaks="a session that nobody can resume replaces one that can be",
        tests=(f"{OF_TRANSPORT}sessions_are_bounded_and_belong_to_one_context",),
    ),
    Mutant(
        file=TRANSPORT,
        old="        if len(self._kept) > SESSIONS:\n",
        new="        if False:\n",
        breaks="sessions are kept without bound",
        tests=(f"{OF_TRANSPORT}sessions_are_bounded_and_belong_to_one_context",),
    ),
    Mutant(
        file=TRANSPORT,
        old="        self._kept.pop(target, None)\n        self._kept[target] = session\n",
        new="        self._kept[target] = session\n",
        breaks="the session that is used most is dropped",
        tests=(f"{OF_TRANSPORT}sessions_are_bounded_and_belong_to_one_context",),
    ),
    Mutant(
        file=TRANSPORT,
        old="        if not self._is_asking:\n            self._ask()\n",
        new="        self._ask()\n",
        breaks="a password that hangs takes a helper thread for each connection",
        tests=(f"{OF_TRANSPORT}the_loop_never_waits_for_certificates_and_asks_once_for_all",),
    ),
    Mutant(
        file=TRANSPORT,
        old="        if self._preparing:\n            self._ask()\n",
        new="",
        breaks="a connection that is asked for while certificates are read is never made",
        tests=(f"{OF_TRANSPORT}the_loop_never_waits_for_certificates_and_asks_once_for_all",),
    ),
    Mutant(
        file=TRANSPORT,
        old="            if where is None:\n                continue\n",
        new="            if where is None:\n                where = ('127.0.0.1', 1)\n",
        breaks="a connection that was given up is made all the same",
        tests=(f"{OF_TRANSPORT}the_loop_never_waits_for_certificates_and_asks_once_for_all",),
    ),
    Mutant(
        file=TRANSPORT,
        old="                self._prepared.pop(dialled.link, None)\n",
        new="                pass\n",
        breaks="each attempt that fails is kept",
        tests=(f"{OF_TRANSPORT}a_dial_that_fails_leaves_nothing",),
    ),
    Mutant(
        file=TRANSPORT,
        old="        self._unread[s.link] = s\n",
        new="",
        breaks="what OpenSSL has read already is not delivered",
        tests=(f"{OF_BYTES}what_openssl_has_read_already_is_read_without_a_new_event",),
    ),
    Mutant(
        file=TRANSPORT,
        old="super().select(0.0 if self._overdue else timeout)",
        new="super().select(timeout)",
        breaks="the loop sleeps although there is something to read",
        tests=(f"{OF_BYTES}what_openssl_has_read_already_is_read_without_a_new_event",),
    ),
    Mutant(
        file=TRANSPORT,
        old="        self._overdue.pop(s.link, None)\n",
        new="",
        breaks="a connection reads twice in a turn",
        tests=(f"{OF_BYTES}a_turn_reads_no_more_than_its_budget",),
    ),
    Mutant(
        file=TRANSPORT,
        old="        if s.out and not s.events & WRITE:  #",
        new="        if False:  #",
        breaks="a write that had to read first is never tried again",
        tests=(f"{OF_BYTES}a_write_that_needs_a_read_first_is_tried_after_it_and_reported",),
    ),
    Mutant(
        file=TRANSPORT,
        old="            self._write_on(s)\n",
        new="            self._flush(s)\n",
        breaks="the end of a write that had to read first is not reported",
        tests=(f"{OF_BYTES}a_write_that_needs_a_read_first_is_tried_after_it_and_reported",),
    ),
    Mutant(
        file=TRANSPORT,
        old="        except ssl.SSLWantReadError:\n            self._watch(s, READ)\n            return\n        except ssl.SSLWantWriteError:\n            pass\n",
        new="        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):\n            pass\n",
        breaks="a write that has to read first makes the loop spin",
        tests=(f"{OF_BYTES}a_write_that_needs_a_read_first_is_tried_after_it_and_reported",),
    ),
    Mutant(
        file=TRANSPORT,
        old="            self._watch(s, READ | WRITE)\n            return\n        except DecodeError",
        new="            return\n        except DecodeError",
        breaks="a read that had to write first waits for the next frame",
        tests=(f"{OF_BYTES}a_read_that_needs_a_write_first_is_tried_when_the_socket_takes_it",),
    ),
    Mutant(
        file=TRANSPORT,
        old="        super()._ready(s, mask | READ)  #",
        new="        super()._ready(s, mask)  #",
        breaks="a read that had to write first is not tried when it can",
        tests=(f"{OF_BYTES}a_read_that_needs_a_write_first_is_tried_when_the_socket_takes_it",),
    ),
    Mutant(
        file=TRANSPORT,
        old="            self._read(s)  # responses",
        new="            pass  # responses",
        breaks="a refusal that arrives before a write is not read",
        tests=(f"{OF_BYTES}a_reset_is_named_and_what_came_before_is_kept",),
    ),
    Mutant(
        file=TRANSPORT,
        old="            if self._sockets.get(s.link) is s:\n                self._lose(s, explain_tls(s.address, error))\n",
        new="            self._lose(s, explain_tls(s.address, error))\n",
        breaks="a connection is lost twice",
        tests=(f"{OF_BYTES}a_connection_that_fails_both_ways_is_lost_once",),
    ),
    Mutant(
        file=TRANSPORT,
        old="        return memoryview(first)[:TURN_BYTES]\n",
        new="        return first\n",
        breaks="one buffer can take a whole turn",
        tests=(f"{OF_BYTES}small_buffers_share_a_record_and_large_ones_are_not_copied",),
    ),
    Mutant(
        file=TRANSPORT,
        old="    if len(out) == 1 or len(first) >= TLS_RECORD:\n",
        new="    if True:\n",
        breaks="each small buffer becomes a record",
        tests=(f"{OF_BYTES}many_small_buffers_become_few_records",),
    ),
    Mutant(
        file=TRANSPORT,
        old="        piece = memoryview(buffer)[: TLS_RECORD - size]\n",
        new="        piece = memoryview(buffer)\n",
        breaks="a large buffer is copied to be joined with a small one",
        tests=(f"{OF_BYTES}small_buffers_share_a_record_and_large_ones_are_not_copied",),
    ),
    Mutant(
        file=TRANSPORT,
        old="        self._preparing.clear()\n        self._prepared.clear()\n",
        new="",
        breaks="a loop that has ended dials",
        tests=(f"{OF_ENDS}shutting_down_in_any_state_closes_everything",),
    ),
    Mutant(
        file=TRANSPORT,
        old='b"" if heard else _peek(sock, REST)',
        new='b""',
        breaks="what OpenSSL has begun to read is not named",
        tests=(f"{OF_TRANSPORT}what_comes_unasked_is_named_whoever_reads_it_first",),
    ),
    Mutant(
        file=TRANSPORT,
        old="            while budget > 0 and len(self._events) < limit:\n",
        new="            while budget > 0:\n",
        breaks="over TLS a turn takes any number of empty frames",
        tests=("tests/net/test_transport.py::test_a_turn_takes_no_more_than_so_many_frames",),
    ),
)
