"""Bugs of OAUTHBEARER: checks of tokens that are left out, tokens that are shown."""

from __future__ import annotations

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
    Mutant(
        file="pykafka4/core/sasl/oauthbearer.py",
        old="    if not TOKEN.fullmatch(text):\n",
        new="    if False:\n",
        breaks="a token may end its field and begin another",
        tests=("tests/core/sasl/test_oauthbearer.py::test_a_token_that_is_refused",),
    ),
    Mutant(
        file="pykafka4/core/sasl/oauthbearer.py",
        old="    if not TOKEN.fullmatch(text):\n",
        new="    if not TOKEN.match(text):\n",
        breaks="only the beginning of a token is checked",
        tests=("tests/core/sasl/test_oauthbearer.py::test_a_token_that_is_refused",),
    ),
    Mutant(
        file="pykafka4/core/sasl/oauthbearer.py",
        old="    if len(text) > LONGEST_TOKEN:\n",
        new="    if False:\n",
        breaks="a token has no longest size",
        tests=("tests/core/sasl/test_oauthbearer.py::test_a_token_that_is_refused",),
    ),
    Mutant(
        file="pykafka4/core/sasl/oauthbearer.py",
        old=" or name == RESERVED:",
        new=":",
        breaks="an extension may replace the token",
        tests=("tests/core/sasl/test_oauthbearer.py::test_extensions_that_are_refused",),
    ),
    Mutant(
        file="pykafka4/core/sasl/oauthbearer.py",
        old="not NAME.fullmatch(name)",
        new="not NAME.match(name)",
        breaks="only the beginning of an extension's name is checked",
        tests=("tests/core/sasl/test_oauthbearer.py::test_extensions_that_are_refused",),
    ),
    Mutant(
        file="pykafka4/core/sasl/oauthbearer.py",
        old="not VALUE.fullmatch(content)",
        new="not VALUE.match(content)",
        breaks="an extension may end its field and begin another",
        tests=("tests/core/sasl/test_oauthbearer.py::test_extensions_that_are_refused",),
    ),
    Mutant(
        file="pykafka4/core/sasl/oauthbearer.py",
        old="    return MappingProxyType(extensions)\n",
        new="    return value\n",
        breaks="extensions can change after they were checked",
        tests=("tests/core/sasl/test_oauthbearer.py::test_extensions_cannot_change",),
    ),
    Mutant(
        file="pykafka4/core/sasl/oauthbearer.py",
        old="converter=_value, repr=hidden",
        new="converter=_value",
        breaks="repr shows the token",
        tests=("tests/core/sasl/test_oauthbearer.py::test_a_token_is_not_shown_and_not_pickled",),
    ),
    Mutant(
        file="pykafka4/core/sasl/oauthbearer.py",
        old="repr=_names",
        new="repr=True",
        breaks="repr shows what the extensions hold",
        tests=("tests/core/sasl/test_oauthbearer.py::test_a_token_is_not_shown_and_not_pickled",),
    ),
    Mutant(
        file="pykafka4/core/sasl/oauthbearer.py",
        old="class Token(Secret):",
        new="class Token:",
        breaks="a token can be pickled",
        tests=("tests/core/sasl/test_oauthbearer.py::test_a_token_is_not_shown_and_not_pickled",),
    ),
    Mutant(
        file="pykafka4/core/sasl/oauthbearer.py",
        old="    if not 0 < value < MILLISECONDS:\n",
        new="    if False:\n",
        breaks="an expiry in milliseconds is taken",
        tests=("tests/core/sasl/test_oauthbearer.py::test_an_expiry_that_is_refused",),
    ),
    Mutant(
        file="pykafka4/core/sasl/oauthbearer.py",
        old="token.expires_at <= now:",
        new="token.expires_at <= 0:",
        breaks="a token that has expired is used",
        tests=("tests/core/sasl/test_oauthbearer.py::test_what_a_callable_may_not_return",),
    ),
    Mutant(
        file="pykafka4/core/sasl/oauthbearer.py",
        old="{SHAPES}, not {found}",
        new="{SHAPES}, not {returned}",
        breaks="an error shows what a callable for tokens returned",
        tests=("tests/core/sasl/test_oauthbearer.py::test_what_a_callable_may_not_return",),
    ),
    Mutant(
        file="pykafka4/core/sasl/oauthbearer.py",
        old="(REFRESH_FACTOR + REFRESH_JITTER * jitter)",
        new="(1 + REFRESH_JITTER * jitter)",
        breaks="a token is refreshed after it has expired",
        tests=("tests/core/sasl/test_oauthbearer.py::test_a_token_is_refreshed_after_80_to_85_percent_of_its_life",),
    ),
    Mutant(
        file="pykafka4/core/sasl/oauthbearer.py",
        old="        if self._reason is not None:\n            raise",
        new="        if False:\n            raise",
        breaks="an empty message after a refused token counts as success",
        tests=("tests/core/sasl/test_oauthbearer.py::test_nothing_but_a_failure_may_follow_a_refused_token",),
    ),
    Mutant(
        file="pykafka4/core/sasl/oauthbearer.py",
        old="        if not challenge:\n            return None\n        self._reason = self._read(challenge)\n",
        new="        return None\n",
        breaks="a refused token counts as accepted",
        tests=("tests/core/sasl/test_oauthbearer.py::test_a_refused_token_is_acknowledged_and_the_reason_kept",),
    ),
    Mutant(
        file="pykafka4/core/sasl/oauthbearer.py",
        old="{self._quoted(value)}",
        new="{value}",
        breaks="the status of a refused token is shown as it is",
        tests=("tests/core/sasl/test_oauthbearer.py::test_a_broker_that_repeats_the_token_is_not_quoted",),
    ),
    Mutant(
        file="pykafka4/core/sasl/oauthbearer.py",
        old="(ValueError, RecursionError)",
        new="ValueError",
        breaks="JSON that is nested deeply ends in another error",
        tests=("tests/core/sasl/test_oauthbearer.py::test_a_refused_token_is_acknowledged_and_the_reason_kept",),
    ),
    Mutant(
        file="pykafka4/core/sasl/oauthbearer.py",
        old="(ValueError, RecursionError)",
        new="RecursionError",
        breaks="what is no JSON ends in another error",
        tests=("tests/core/sasl/test_oauthbearer.py::test_a_refused_token_is_acknowledged_and_the_reason_kept",),
    ),
    Mutant(
        file="pykafka4/core/sasl/oauthbearer.py",
        old="if isinstance(value, str)]",
        new="]",
        breaks="a status of another type ends in another error",
        tests=("tests/core/sasl/test_oauthbearer.py::test_a_refused_token_is_acknowledged_and_the_reason_kept",),
    ),
    Mutant(
        file="pykafka4/core/sasl/oauthbearer.py",
        old="if isinstance(found, dict) else {}",
        new="",
        breaks="JSON that is no object ends in another error",
        tests=("tests/core/sasl/test_oauthbearer.py::test_a_refused_token_is_acknowledged_and_the_reason_kept",),
    ),
    Mutant(
        file="pykafka4/core/sasl/oauthbearer.py",
        old="        return (self._token.value,)\n",
        new="        return ()\n",
        breaks="a broker that repeats the token is quoted",
        tests=("tests/core/sasl/test_oauthbearer.py::test_a_broker_that_repeats_the_token_is_not_quoted",),
    ),
)
