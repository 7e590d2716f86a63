"""Bugs of GSSAPI: proofs that are not asked for, layers that are chosen."""

from __future__ import annotations

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

TEST: Final = "tests/core/sasl/test_gssapi.py::test_"

MUTANTS: Final = (
    Mutant(
        file="pykafka4/core/sasl/gssapi.py",
        old="        if not token:\n",
        new="        if not token:\n            return None\n        if False:\n",
        breaks="a broker's success is believed without a proof of the service's key",
        tests=(f"{TEST}success_without_a_proof_is_refused",),
    ),
    Mutant(
        file="pykafka4/core/sasl/gssapi.py",
        old="        if not self._is_proved:\n",
        new="        if False:\n",
        breaks="tokens of a broker are taken without end",
        tests=(f"{TEST}a_token_that_proves_nothing_is_refused_and_no_other_is_waited_for",),
    ),
    Mutant(
        file="pykafka4/core/sasl/gssapi.py",
        old="self._choose(challenge) if self._is_proved else self._verify(challenge)",
        new="self._choose(challenge) if challenge.startswith(b'signed') else self._verify(challenge)",
        breaks="a security layer is chosen before the broker has proved who it is",
        tests=(f"{TEST}an_offer_in_place_of_a_proof_is_refused",),
    ),
    Mutant(
        file="pykafka4/core/sasl/gssapi.py",
        old="        if len(offer) != OFFER:\n",
        new="        if len(offer) < OFFER:\n",
        breaks="an offer of security layers may have any length",
        tests=(f"{TEST}an_offer_of_the_wrong_length_is_refused",),
    ),
    Mutant(
        file="pykafka4/core/sasl/gssapi.py",
        old="        if not offer[0] & NO_LAYER:\n",
        new="        if False:\n",
        breaks="no security layer is chosen where the broker demands one",
        tests=(f"{TEST}a_broker_that_demands_a_layer_is_refused",),
    ),
    Mutant(
        file="pykafka4/core/sasl/gssapi.py",
        old="        if not offer[0] & NO_LAYER:\n",
        new="        if offer[0] != NO_LAYER:\n",
        breaks="a broker that offers security layers, too, is refused",
        tests=(f"{TEST}no_layer_is_chosen_where_others_are_offered_too",),
    ),
    Mutant(
        file="pykafka4/core/sasl/gssapi.py",
        old="            if challenge:\n",
        new="            if False:\n",
        breaks="bytes after the end of the exchange count as success",
        tests=(f"{TEST}more_after_the_choice_is_refused",),
    ),
    Mutant(
        file="pykafka4/core/sasl/gssapi.py",
        old="        return True  # the library",
        new="        return False  # the library",
        breaks="the Kerberos library runs on the loop",
        tests=(f"{TEST}every_step_is_off_the_loop",),
    ),
)
