"""Kerberos: what the library is asked for, by which threads, and what its errors become."""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

import pytest

from pykafka4.core.sasl.mechanism import Mechanism
from pykafka4.errors import AuthenticationError, ConfigError
from pykafka4.net import kerberos
from pykafka4.net.credentials import Credentials
from pykafka4.net.handoff.turns import turn_of
from pykafka4.options.config import ClientConfig
from tests.net.fake_gssapi import BAD_TOKEN, BASE, MUTUAL, NO_CREDENTIALS, TOKEN, GSSError, Library, of_kerberos
from tests.net.net_helpers import SECONDS, in_thread

KEYTAB = "/etc/me.keytab"


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    made = Library()
    monkeypatch.setitem(sys.modules, "gssapi", made)
    return made


def tickets(**options: Any) -> Credentials:
    given = {f"sasl_kerberos_{name}": value for name, value in options.items()}
    return Credentials(
        ClientConfig.parse({"bootstrap_servers": "b:1", "security_protocol": "SASL_SSL", "sasl_mechanism": "GSSAPI", **given})
    )


def refused(credentials: Credentials) -> AuthenticationError:
    with pytest.raises(AuthenticationError) as caught:
        credentials.mechanism("b1.example")
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    return caught.value


def test_the_options_say_whose_ticket_for_which_service(library: Library) -> None:
    mechanism = tickets(service_name="broker", principal="me@R").mechanism("b1.example")
    assert (mechanism.name, mechanism.first()) == ("GSSAPI", TOKEN)
    (context,) = library.contexts
    assert context.options["name"] == ("broker@b1.example", "service")
    assert context.options["flags"] == [MUTUAL]
    assert context.options["creds"] == {"name": ("me@R", "principal"), "usage": "initiate", "mechs": ["krb5"], "store": None}


def test_the_default_is_the_default_cache_and_the_service_kafka(library: Library) -> None:
    tickets().mechanism("b1.example")
    (context,) = library.contexts
    assert context.options["name"] == ("kafka@b1.example", "service")
    assert context.options["creds"]["name"] is None


def test_with_a_keytab_the_library_gets_the_tickets_and_keeps_them_in_memory(library: Library) -> None:
    for options in ({}, {}, {"principal": "me@R"}):
        tickets(keytab=KEYTAB, **options).mechanism("b1.example")
    stores = [context.options["creds"]["store"] for context in library.contexts]
    assert {store["client_keytab"] for store in stores} == {KEYTAB}
    assert all(store["ccache"].startswith("MEMORY:pykafka4-") for store in stores)
    assert stores[0] == stores[1] != stores[2]


def test_errors_are_not_deferred(library: Library) -> None:
    tickets().mechanism("b1.example")
    assert library.contexts[0].__DEFER_STEP_ERRORS__ is False


def test_the_messages_of_an_exchange_pass_through_the_library(library: Library) -> None:
    mechanism = tickets().mechanism("b1.example")
    mechanism.first()
    assert mechanism.next(b"proof") == b""
    assert mechanism.next(b"signed \x01\x00\x00\x00") == b"signed \x01\x00\x00\x00"
    assert mechanism.next(b"") is None


def test_a_context_that_is_complete_without_a_proof_of_the_broker_is_not_mutual(library: Library) -> None:
    library.flags = set()
    mechanism = tickets().mechanism("b1.example")
    mechanism.first()
    with pytest.raises(AuthenticationError, match="does not prove that it is kafka/b1"):
        mechanism.next(b"proof")


@pytest.mark.parametrize("proved", [False, True])
def test_what_the_library_refuses_of_a_broker_is_an_authentication_error(library: Library, proved: bool) -> None:
    mechanism: Mechanism = tickets().mechanism("b1.example")
    mechanism.first()
    if proved:
        mechanism.next(b"proof")
    library.error = GSSError(BAD_TOKEN, 100005, "A token was invalid")
    with pytest.raises(AuthenticationError, match="message is refused: 'An invalid name was supplied; A token was invalid'") as caught:
        mechanism.next(b"junk")
    assert caught.value.__context__ is None


@pytest.mark.parametrize(
    ("number", "options", "says"),
    [
        (6, {}, "check sasl_kerberos_principal"),
        (
            7,
            {},
            "check sasl_kerberos_service_name, and the host in bootstrap_servers or advertised.listeners: the KDC has to know kafka/b1.",
        ),
        (18, {}, "the account is locked"),
        (24, {"keytab": KEYTAB}, "export it again (`ktadd`)"),
        (31, {"keytab": KEYTAB}, "export it again (`ktadd`)"),
        (32, {}, "run `kinit`"),
        (33, {}, "check the clocks"),
        (37, {}, "check the clocks"),
        (141, {}, "run `kinit` as the user of this process, or set sasl_kerberos_keytab"),
        (141, {"principal": "me@R"}, "sasl_kerberos_keytab (the ticket must belong to me@R)"),
        (195, {"keytab": KEYTAB}, f"check that sasl_kerberos_keytab='{KEYTAB}' can be read and has a key (`klist -k {KEYTAB}`)"),
        (181, {"keytab": KEYTAB, "principal": "me@R"}, "has a key of me@R (`klist"),
    ],
)
def test_why_there_is_no_ticket_and_the_way_out(library: Library, number: int, options: dict[str, str], says: str) -> None:
    library.error = of_kerberos(number, "words of the library")
    error = refused(tickets(**options))
    assert str(error).startswith("no ticket for kafka/b1.example: 'words of the library'; ")
    assert says in str(error)
    assert error.certain


@pytest.mark.parametrize("number", [156, 220])
def test_a_kdc_that_is_away_is_a_guess(library: Library, number: int) -> None:
    library.error = of_kerberos(number, "Cannot contact any KDC")
    error = refused(tickets())
    assert "krb5.conf" in str(error)
    assert not error.certain


@pytest.mark.parametrize("minor", [0, 100001, BASE + 300])
def test_an_unknown_error_is_a_guess_with_the_words_of_both_codes(library: Library, minor: int) -> None:
    library.error = GSSError(NO_CREDENTIALS, minor, "odd")
    error = refused(tickets())
    assert "'An invalid name was supplied; odd'; KRB5_TRACE=/dev/stderr" in str(error)
    assert not error.certain


def test_words_of_the_library_are_bounded(library: Library) -> None:
    library.error = of_kerberos(7, "{x}\n\x1b" * 10_000)
    assert len(str(refused(tickets()))) < 1000
    assert "\x1b" not in str(refused(tickets()))


def test_with_a_keytab_one_thread_at_a_time_asks(library: Library) -> None:
    """Whichever client it belongs to: the cache is theirs in common."""
    free: list[bool] = []

    def look() -> None:
        in_thread(lambda: free.append(turn_of(kerberos.digest(KEYTAB, None)).acquire(blocking=False))).join(SECONDS)

    library.on_step = look
    for _ in range(2):
        tickets(keytab=KEYTAB).mechanism("b1")
    assert free == [False, False]


def test_without_a_keytab_a_thread_that_waits_for_a_kdc_delays_no_other(library: Library) -> None:
    release, inside = threading.Event(), threading.Barrier(3)

    def wait() -> None:
        inside.wait(SECONDS)
        assert release.wait(SECONDS)

    library.on_step = wait
    credentials = tickets()
    threads = [in_thread(lambda: credentials.mechanism("b1")) for _ in range(2)]
    inside.wait(SECONDS)
    release.set()
    for thread in threads:
        thread.join(SECONDS)
        assert not thread.is_alive()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # since Python 3.12, of a fork beside threads
def test_a_child_does_not_wait_for_a_thread_of_its_parent() -> None:
    release, held = threading.Event(), threading.Event()

    def hold() -> None:
        with turn_of(kerberos.digest(KEYTAB, None)):
            held.set()
            release.wait(SECONDS)

    thread = in_thread(hold)
    assert held.wait(SECONDS)
    child = os.fork()
    if child == 0:
        os._exit(0 if turn_of(kerberos.digest(KEYTAB, None)).acquire(blocking=False) else 1)
    _, status = os.waitpid(child, 0)
    release.set()
    thread.join(SECONDS)
    assert os.waitstatus_to_exitcode(status) == 0


def test_a_missing_package_is_a_config_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(ConfigError, match="apt-get install -y gcc libkrb5-dev"):
        tickets()
