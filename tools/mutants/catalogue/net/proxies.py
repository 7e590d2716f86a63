"""Bugs of the handshakes with proxies."""

from __future__ import annotations

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

FILE: Final = "pykafka4/net/proxies.py"
TESTS: Final = "tests/net/test_proxies.py::"

MUTANTS: Final = (
    Mutant(
        file=FILE,
        old="    if target is None or not 0 < port < 65536:",
        new="    if target is None:",
        breaks="a port that is none is asked for",
        tests=(f"{TESTS}test_what_no_proxy_can_be_asked_for_is_refused_at_once",),
    ),
    Mutant(
        file=FILE,
        old="    return name if HOST_NAME.fullmatch(name) else None",
        new="    return name",
        breaks="the name of a broker adds headers to a request",
        tests=(f"{TESTS}test_what_no_proxy_can_be_asked_for_is_refused_at_once",),
    ),
    Mutant(
        file=FILE,
        old='    if "%" not in host:  #',
        new="    if True:  #",
        breaks="a proxy is asked for an address without its zone",
        tests=(f"{TESTS}test_what_no_proxy_can_be_asked_for_is_refused_at_once",),
    ),
    Mutant(
        file=FILE,
        old='host if host.isascii() or len(host) > 255 else host.encode("idna").decode()',
        new="host",
        breaks="names with other letters cannot be reached through a proxy",
        tests=(f"{TESTS}test_an_http_proxy_is_asked_for_host_and_port",),
    ),
    Mutant(
        file=FILE,
        old="            if self._received:\n",
        new="            if False:\n",
        breaks="bytes that follow a proxy's answer are lost",
        tests=(f"{TESTS}test_bytes_after_an_answer_are_an_error",),
    ),
    Mutant(
        file=FILE,
        old="        elif self._room <= 0:",
        new="        elif False:",
        breaks="the answer of a proxy has no bound",
        tests=(f"{TESTS}test_an_answer_has_a_bound",),
    ),
    Mutant(
        file=FILE,
        old="        self._room -= len(data)\n",
        new="        self._room = LIMIT - len(self._received)\n",
        breaks="a proxy announces answers without end",
        tests=(f"{TESTS}test_announcements_without_end_have_the_same_bound",),
    ),
    Mutant(
        file=FILE,
        old="        methods = [NO_AUTHENTICATION] if proxy.username is None else [NO_AUTHENTICATION, PASSWORD]",
        new="        methods = [NO_AUTHENTICATION]",
        breaks="a SOCKS proxy is not offered user name and password",
        tests=(f"{TESTS}test_the_tunnel_is_there_after_the_last_answer_however_the_answers_are_cut",),
    ),
    Mutant(
        file=FILE,
        old="        if method == PASSWORD and username is not None:",
        new="        if username is not None:",
        breaks="a SOCKS proxy that chose another method is told the password",
        tests=(f"{TESTS}test_a_method_that_was_not_offered_is_refused",),
    ),
    Mutant(
        file=FILE,
        old="        if self._received[1] != 0:\n            raise self._unauthorized()\n",
        new="",
        breaks="a SOCKS proxy that refuses the password is asked for the broker",
        tests=(f"{TESTS}test_a_wrong_password_for_a_socks_proxy_is_an_authentication_error",),
    ),
    Mutant(
        file=FILE,
        old="address = bytes((IPV4 if self._host.version == 4 else IPV6,)) + self._host.packed",
        new="address = bytes((IPV4,)) + self._host.packed",
        breaks="addresses of IPv6 are sent to a SOCKS proxy as those of IPv4",
        tests=(f"{TESTS}test_names_go_to_a_socks_proxy_as_names_and_addresses_as_addresses",),
    ),
    Mutant(
        file=FILE,
        old="        if len(received) > 1 and (reply := received[1]) != 0:",
        new="        if len(received) > 9 and (reply := received[1]) != 0:",
        breaks="a refusal of a SOCKS proxy is read only if an address follows it",
        tests=(f"{TESTS}test_every_reply_of_socks_is_named_as_soon_as_it_is_there",),
    ),
    Mutant(
        file=FILE,
        old="(1 + received[4] if kind == NAME else SIZES[kind])",
        new="SIZES.get(kind, 4)",
        breaks="a SOCKS proxy that answers with a name is not understood",
        tests=(f"{TESTS}test_the_tunnel_is_there_after_the_last_answer_however_the_answers_are_cut",),
    ),
    Mutant(
        file=FILE,
        old='target = f"[{host}]:{port}" if isinstance(host, IPv6Address) else f"{host}:{port}"',
        new='target = f"{host}:{port}"',
        breaks="an HTTP proxy cannot tell an address of IPv6 from its port",
        tests=(f"{TESTS}test_an_http_proxy_is_asked_for_host_and_port",),
    ),
    Mutant(
        file=FILE,
        old="        if proxy.username is not None:\n            credentials",
        new="        if False:\n            credentials",
        breaks="an HTTP proxy is not told user name and password",
        tests=(f"{TESTS}test_the_tunnel_is_there_after_the_last_answer_however_the_answers_are_cut",),
    ),
    Mutant(
        file=FILE,
        old="max(0, len(received) - 3)",
        new="len(received)",
        breaks="the end of a head that comes in pieces is not found",
        tests=(f"{TESTS}test_the_tunnel_is_there_after_the_last_answer_however_the_answers_are_cut",),
    ),
    Mutant(
        file=FILE,
        old="if (code := int(status[1])) >= 200:",
        new="if (code := int(status[1])) >= 0:",
        breaks="an announcement is taken for the answer",
        tests=(f"{TESTS}test_the_tunnel_is_there_after_the_last_answer_however_the_answers_are_cut",),
    ),
    Mutant(
        file=FILE,
        old="            self._searched = 0\n        if code",
        new="        if code",
        breaks="the answer behind an announcement is searched from its middle",
        tests=(f"{TESTS}test_the_tunnel_is_there_after_the_last_answer_however_the_answers_are_cut",),
    ),
    Mutant(
        file=FILE,
        old="        if code >= 300:\n",
        new="        if code >= 400:\n",
        breaks="a redirection is taken for a tunnel",
        tests=(f"{TESTS}test_every_status_of_http_is_named",),
    ),
    Mutant(
        file=FILE,
        old="        if code != 407:\n",
        new="        if True:\n",
        breaks="who has the wrong password for an HTTP proxy waits for a time-out",
        tests=(f"{TESTS}test_status_407_is_an_authentication_error",),
    ),
    Mutant(
        file=FILE,
        old="        if offered and not any",
        new="        if not any",
        breaks="a proxy that names no scheme is said to have another one",
        tests=(f"{TESTS}test_status_407_is_an_authentication_error",),
    ),
)
