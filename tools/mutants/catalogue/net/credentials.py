"""Bugs of the application's callables for credentials, and of the life of a token."""

from __future__ import annotations

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
    Mutant(
        file="pykafka4/net/credentials.py",
        old="        if answer is not None:\n            self._held.refused = True\n",
        new="",
        breaks="a token that was refused as JSON is used again",
        tests=("tests/net/test_credentials.py::test_a_token_that_was_refused_as_json_only_is_not_used_again",),
    ),
    Mutant(
        file="pykafka4/net/credentials.py",
        old="        self._held.refused = True\n        return super().refused(message)\n",
        new="        return super().refused(message)\n",
        breaks="a token that was refused is used again",
        tests=("tests/net/test_credentials.py::test_a_token_that_a_broker_refused_is_not_used_again",),
    ),
    Mutant(
        file="pykafka4/net/credentials.py",
        old="self._clock() < held.ask_at:",
        new="True:",
        breaks="a token is used until brokers refuse it",
        tests=("tests/net/test_credentials.py::test_a_token_is_used_again_until_four_fifths_of_its_life_are_over",),
    ),
    Mutant(
        file="pykafka4/net/credentials.py",
        old="if held is None or held.refused or",
        new="if held is None or",
        breaks="a refused token is used while no other can be had",
        tests=("tests/net/test_credentials.py::test_a_refused_token_is_not_used_even_if_there_is_no_other",),
    ),
    Mutant(
        file="pykafka4/net/credentials.py",
        old=" or now >= held.token.expires_at:",
        new=":",
        breaks="an expired token is used while no other can be had",
        tests=("tests/net/test_credentials.py::test_while_no_token_can_be_had_the_last_one_is_used_until_it_expires",),
    ),
    Mutant(
        file="pykafka4/net/handoff/newest.py",
        old="            if number > self._kept:",
        new="            if True:",
        breaks="a call that took long replaces a newer token",
        tests=("tests/net/test_credentials.py::test_a_call_that_took_long_does_not_replace_a_newer_token",),
    ),
    Mutant(
        file="pykafka4/net/credentials.py",
        old="held if token.expires_at is not None else None)",
        new="held)",
        breaks="a token without an expiry is used for ever",
        tests=("tests/net/test_credentials.py::test_a_token_without_an_expiry_is_never_used_again",),
    ),
    Mutant(
        file="pykafka4/net/credentials.py",
        old="        if last == credentials:\n",
        new="        if last is credentials:\n",
        breaks="keys are derived for each connection",
        tests=("tests/net/test_credentials.py::test_derived_keys_are_shared_while_the_password_is_the_same",),
    ),
    Mutant(
        file="pykafka4/net/credentials.py",
        old="        if last == credentials:\n            return last ",
        new="        if last is not None:\n            return last ",
        breaks="a changed password is not noticed",
        tests=("tests/net/test_credentials.py::test_both_callables_are_asked_for_each_connection_and_their_answers_are_used_together",),
    ),
    Mutant(
        file="pykafka4/net/credentials.py",
        old="secrets.token_bytes(NONCE)",
        new="bytes(NONCE)",
        breaks="all nonces are the same",
        tests=("tests/net/test_credentials.py::test_the_nonces_of_two_connections_differ",),
    ),
    Mutant(
        file="pykafka4/net/credentials.py",
        old="        name = self._config.sasl_mechanism\n",
        new='        name = "PLAIN"\n',
        breaks="sasl_mechanism is ignored",
        tests=("tests/net/test_credentials.py::test_the_nonces_of_two_connections_differ",),
    ),
    Mutant(
        file="pykafka4/net/credentials.py",
        old="_ask(self._config.sasl_username)",
        new='"nobody"',
        breaks="sasl_username is ignored",
        tests=("tests/net/test_credentials.py::test_both_callables_are_asked_for_each_connection_and_their_answers_are_used_together",),
    ),
    Mutant(
        file="pykafka4/net/credentials.py",
        old="_ask(self._config.sasl_password)",
        new='"nothing"',
        breaks="sasl_password is ignored",
        tests=("tests/net/test_credentials.py::test_both_callables_are_asked_for_each_connection_and_their_answers_are_used_together",),
    ),
    Mutant(
        file="pykafka4/net/credentials.py",
        old="token_of(self._config.sasl_oauth_token(), self",
        new='token_of("a.b.c", self',
        breaks="sasl_oauth_token is ignored",
        tests=("tests/net/test_credentials.py::test_a_token_is_used_again_until_four_fifths_of_its_life_are_over",),
    ),
    Mutant(
        file="pykafka4/net/credentials.py",
        old="        last = self._last\n",
        new='        last = self._last\n        log.info("%s: logging in with %s", self._config.client_id, credentials.password)\n',
        breaks="the password is logged",
        tests=("tests/secrets/test_secrets.py::test_who_is_let_in",),
    ),
    Mutant(
        file="pykafka4/net/credentials.py",
        old="config.sasl_kerberos_service_name",
        new='"kafka"',
        breaks="sasl_kerberos_service_name is ignored",
        tests=("tests/net/test_kerberos.py::test_the_options_say_whose_ticket_for_which_service",),
    ),
    Mutant(
        file="pykafka4/net/credentials.py",
        old="config.sasl_kerberos_principal",
        new="None",
        breaks="sasl_kerberos_principal is ignored",
        tests=("tests/net/test_kerberos.py::test_the_options_say_whose_ticket_for_which_service",),
    ),
    Mutant(
        file="pykafka4/net/credentials.py",
        old="config.sasl_kerberos_keytab",
        new="None",
        breaks="sasl_kerberos_keytab is ignored",
        tests=("tests/net/test_kerberos.py::test_with_a_keytab_the_library_gets_the_tickets_and_keeps_them_in_memory",),
    ),
)
