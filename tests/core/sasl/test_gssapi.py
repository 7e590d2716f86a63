"""GSSAPI (RFC 4752): who has proved what, and which layer is chosen."""

from __future__ import annotations

import pytest

from pykafka4.core.sasl.gssapi import Gssapi
from pykafka4.core.sasl.mechanism import Step
from tests.core.sasl.gss_peer import FIRST, OFFER, PROOF, SERVICE, SIGNED, Context, gssapi
from tests.core.sasl.sasl_peer import reason, refusal


def proved(context: Context | None = None) -> Gssapi:
    """One whose broker has proved who it is."""
    client = gssapi(context)
    client.first()
    client.next(PROOF)
    return client


def test_the_whole_exchange() -> None:
    client = gssapi()
    assert client.first() == FIRST
    assert client.next(PROOF) == b""
    assert client.next(SIGNED + OFFER) == SIGNED + b"\x01\x00\x00\x00"  # no layer, and no other identity than the ticket's
    assert client.step is Step.WAITING
    assert client.next(b"") is None
    assert client.step is Step.DONE


def test_the_library_s_answer_to_the_proof_is_sent() -> None:
    client = gssapi(Context(b"one more"))
    client.first()
    assert client.next(PROOF) == b"one more"


@pytest.mark.parametrize("message", [b"", PROOF, OFFER])
def test_every_step_is_off_the_loop(message: bytes) -> None:
    assert gssapi().slow(message)


def test_success_without_a_proof_is_refused() -> None:
    client = gssapi()
    client.first()
    assert reason(refusal(client, b"")) == f"the broker reports success without a proof that it is {SERVICE}: do not trust it"


def test_a_token_that_proves_nothing_is_refused_and_no_other_is_waited_for() -> None:
    context = Context()
    client = gssapi(context)
    client.first()
    error = refusal(client, b"broker's first of many tokens")
    assert reason(error) == f"the broker's token does not prove that it is {SERVICE}: do not trust it"
    assert len(context.steps) == 1


def test_an_offer_in_place_of_a_proof_is_refused() -> None:
    client = gssapi()
    client.first()
    assert "the broker's message is refused" in reason(refusal(client, SIGNED + OFFER))


def test_success_before_the_layer_is_chosen_is_refused() -> None:
    assert "the broker's message is refused" in reason(refusal(proved(), b""))


def test_an_offer_without_a_signature_is_refused() -> None:
    assert "an invalid signature" in reason(refusal(proved(), OFFER))


@pytest.mark.parametrize("offer", [b"", b"\x01", b"\x01\x00\x00", OFFER + b"alice", b"\x01" * 5000])
def test_an_offer_of_the_wrong_length_is_refused(offer: bytes) -> None:
    assert f"the broker's offer of security layers has {len(offer):,} bytes, not 4" in reason(refusal(proved(), SIGNED + offer))


@pytest.mark.parametrize("layers", [0, 2, 4, 6, 0xF8])
def test_a_broker_that_demands_a_layer_is_refused(layers: int) -> None:
    assert "demands a security layer" in reason(refusal(proved(), SIGNED + bytes([layers, 0, 16, 0])))


@pytest.mark.parametrize("layers", [1, 3, 5, 7, 0xFF])
def test_no_layer_is_chosen_where_others_are_offered_too(layers: int) -> None:
    assert proved().next(SIGNED + bytes([layers, 0, 16, 0])) == SIGNED + b"\x01\x00\x00\x00"


def test_more_after_the_choice_is_refused() -> None:
    client = proved()
    client.next(SIGNED + OFFER)
    assert "the broker sent 11 bytes after the end of the exchange" in reason(refusal(client, SIGNED + OFFER))


def test_a_refusal_says_what_to_check() -> None:
    error = gssapi().refused("Authentication failed due to invalid credentials with SASL mechanism GSSAPI")
    assert "the broker refused the credentials: 'Authentication failed due" in reason(error)
    assert f"the broker's keytab has the present key of {SERVICE}" in reason(error)
