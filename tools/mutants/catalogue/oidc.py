"""Bugs of tokens from an OpenID Connect issuer."""

from __future__ import annotations

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
    Mutant(
        file="pykafka4/oidc.py",
        old='    if parts.scheme != "https":\n',
        new='    if parts.scheme == "file":\n',
        breaks="the secret is sent in clear text",
        tests=("tests/test_oidc.py::test_only_urls_of_https_are_taken",),
    ),
    Mutant(
        file="pykafka4/oidc.py",
        old="    if parts.username is not None or parts.password is not None:\n",
        new="    if False:\n",
        breaks="a password in the URL is in messages",
        tests=("tests/test_oidc.py::test_only_urls_of_https_are_taken",),
    ),
    Mutant(
        file="pykafka4/oidc.py",
        old='    return url.partition("?")[0]\n',
        new="    return url\n",
        breaks="the query of the URL is in messages",
        tests=(
            "tests/test_oidc.py::test_it_shows_no_secret_and_cannot_be_pickled",
            "tests/test_oidc.py::test_every_other_answer_is_an_error_that_names_the_reason_and_no_secret",
        ),
    ),
    Mutant(
        file="pykafka4/oidc.py",
        old="            context = ssl.create_default_context(cafile=self.ca_file)\n",
        new="            context = ssl._create_unverified_context(cafile=self.ca_file)\n",
        breaks="anybody may pass for the issuer",
        tests=("tests/test_oidc.py::test_a_certificate_of_another_authority_is_refused_before_the_secret_is_sent",),
    ),
    Mutant(
        file="pykafka4/oidc.py",
        old="            context.minimum_version = ssl.TLSVersion.TLSv1_2\n",
        new="            context.check_hostname = False\n",
        breaks="another host of the same authority may pass for the issuer",
        tests=("tests/test_oidc.py::test_a_certificate_for_another_host_is_refused",),
    ),
    Mutant(
        file="pykafka4/oidc.py",
        old="            context.sslsocket_class = Timed\n",
        new="            pass\n",
        breaks="the deadline begins again with each byte",
        tests=("tests/test_oidc.py::test_an_issuer_that_sends_a_byte_now_and_then_is_given_up_in_time",),
    ),
    Mutant(
        file="pykafka4/oidc.py",
        old="        self.settimeout(_left(self.deadline))\n        count",
        new="        count",
        breaks="an issuer that drips is listened to for ever",
        tests=("tests/test_oidc.py::test_an_issuer_that_sends_a_byte_now_and_then_is_given_up_in_time",),
    ),
    Mutant(
        file="pykafka4/oidc.py",
        old="        if self.room < 0:\n",
        new="        if False:\n",
        breaks="headers without an end fill the time",
        tests=("tests/test_oidc.py::test_every_other_answer_is_an_error_that_names_the_reason_and_no_secret",),
    ),
    Mutant(
        file="pykafka4/oidc.py",
        old="        if len(answer.body) > LARGEST:\n",
        new="        if False:\n",
        breaks="a response may be of any size",
        tests=("tests/test_oidc.py::test_every_other_answer_is_an_error_that_names_the_reason_and_no_secret",),
    ),
    Mutant(
        file="pykafka4/oidc.py",
        old="        if answer.status != 200:\n",
        new="        if answer.status >= 500:\n",
        breaks="a redirect or a refusal is read as a token",
        tests=(
            "tests/test_oidc.py::test_a_redirect_is_not_followed",
            "tests/test_oidc.py::test_every_other_answer_is_an_error_that_names_the_reason_and_no_secret",
        ),
    ),
    Mutant(
        file="pykafka4/oidc.py",
        old='        if not isinstance(value, str):\n            raise self._failed("its response has no',
        new='        if value is None:\n            raise self._failed("its response has no',
        breaks="a token need not be a text",
        tests=("tests/test_oidc.py::test_every_other_answer_is_an_error_that_names_the_reason_and_no_secret",),
    ),
    Mutant(
        file="pykafka4/oidc.py",
        old='        if not isinstance(kind, str) or kind.lower() != "bearer":\n',
        new="        if False:\n",
        breaks="a token of another type is sent to brokers",
        tests=("tests/test_oidc.py::test_every_other_answer_is_an_error_that_names_the_reason_and_no_secret",),
    ),
    Mutant(
        file="pykafka4/oidc.py",
        old="        if life is None or not 0 < life <= LONGEST_LIFE:\n",
        new="        if life is None:\n",
        breaks="a token may live for centuries",
        tests=("tests/test_oidc.py::test_a_life_that_makes_no_sense_is_refused",),
    ),
    Mutant(
        file="pykafka4/oidc.py",
        old="asked_at + self._life",
        new="self.clock() + self._life",
        breaks="a token is taken to live longer than it does",
        tests=("tests/test_oidc.py::test_the_life_begins_when_the_token_is_asked_for",),
    ),
    Mutant(
        file="pykafka4/oidc.py",
        old="{harmless(text, secrets)}",
        new="{text}",
        breaks="the issuer's words are shown whatever they repeat",
        tests=("tests/test_oidc.py::test_every_other_answer_is_an_error_that_names_the_reason_and_no_secret",),
    ),
    Mutant(
        file="pykafka4/oidc.py",
        old="        raise self._failed(reason, certain=False)  # outside",
        new="        raise self._failed(reason)  # outside",
        breaks="an issuer that is down is taken for one that refuses this client",
        tests=("tests/test_oidc.py::test_nobody_listening_is_a_guess",),
    ),
    Mutant(
        file="pykafka4/oidc.py",
        old="quote_plus(value) if self.form_encode else value for",
        new="value if self.form_encode else value for",
        breaks="the secret is not encoded as RFC 6749 demands",
        tests=("tests/test_oidc.py::test_it_asks_as_in_rfc_6749_and_returns_a_token_with_its_expiry",),
    ),
    Mutant(
        file="pykafka4/oidc.py",
        old="converter=_secret, repr=hidden)",
        new="converter=_secret)",
        breaks="repr shows the secret",
        tests=("tests/test_oidc.py::test_it_shows_no_secret_and_cannot_be_pickled",),
    ),
    Mutant(
        file="pykafka4/oidc.py",
        old="class OidcToken(Secret):",
        new="class OidcToken:",
        breaks="the secret is pickled",
        tests=("tests/test_oidc.py::test_it_shows_no_secret_and_cannot_be_pickled",),
    ),
    Mutant(
        file="pykafka4/oidc.py",
        old="    except (ValueError, RecursionError):\n",
        new="    except ValueError:\n",
        breaks="nested JSON raises RecursionError",
        tests=("tests/test_oidc.py::test_every_other_answer_is_an_error_that_names_the_reason_and_no_secret",),
    ),
)
