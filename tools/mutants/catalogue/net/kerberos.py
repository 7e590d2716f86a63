"""Bugs of tickets: whose they are, who waits for a KDC, what errors say."""

from __future__ import annotations

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

TEST: Final = "tests/net/test_kerberos.py::test_"

MUTANTS: Final = (
    Mutant(
        file="pykafka4/net/kerberos.py",
        old="            with self._turn:\n",
        new="            if True:\n",
        breaks="threads renew the ticket of one cache at the same time",
        tests=(f"{TEST}with_a_keytab_one_thread_at_a_time_asks",),
    ),
    Mutant(
        file="pykafka4/net/kerberos.py",
        old="contextlib.nullcontext() if keytab is None else turn_of(_digest(keytab, principal))",
        new="turn_of(_digest(str(keytab), principal))",
        breaks="authentications with the default cache wait for each other",
        tests=(f"{TEST}without_a_keytab_a_thread_that_waits_for_a_kdc_delays_no_other",),
    ),
    Mutant(
        file="pykafka4/net/kerberos.py",
        old="        context.__DEFER_STEP_ERRORS__ = False",
        new="        context.__DEFER_STEP_ERRORS__ = True",
        breaks="an error of the library is sent to the broker as a token",
        tests=(f"{TEST}errors_are_not_deferred",),
    ),
    Mutant(
        file="pykafka4/net/kerberos.py",
        old="        return answer, bool(self._context.complete and mutual in self._context.actual_flags)",
        new="        return answer, bool(self._context.complete)",
        breaks="a broker need not prove that it has the key",
        tests=(f"{TEST}a_context_that_is_complete_without_a_proof_of_the_broker_is_not_mutual",),
    ),
    Mutant(
        file="pykafka4/net/kerberos.py",
        old="flags = [gssapi.RequirementFlag.mutual_authentication]",
        new="flags: list[Any] = []",
        breaks="the broker is not asked for a proof",
        tests=(f"{TEST}the_options_say_whose_ticket_for_which_service",),
    ),
    Mutant(
        file="pykafka4/net/kerberos.py",
        old="        error.certain = code in NO_KEY or (code in ADVICE and code not in UNREACHABLE)\n",
        new="",
        breaks="a KDC that is away counts as a refusal",
        tests=(f"{TEST}a_kdc_that_is_away_is_a_guess",),
    ),
    Mutant(
        file="pykafka4/net/kerberos.py",
        old='    return harmless("; ".join(words), ())\n',
        new='    return "; ".join(words)\n',
        breaks="what a KDC says is repeated at any length",
        tests=(f"{TEST}words_of_the_library_are_bounded",),
    ),
    Mutant(
        file="pykafka4/net/kerberos.py",
        old="    except ImportError as error:",
        new="    except ZeroDivisionError as error:",
        breaks="a missing package is an ImportError",
        tests=(f"{TEST}a_missing_package_is_a_config_error",),
    ),
)
