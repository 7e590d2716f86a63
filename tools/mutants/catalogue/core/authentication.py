"""Bugs of authentication on a connection, of its jobs, and of what refusals lead to."""

from __future__ import annotations

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
    Mutant(
        file="pykafka4/core/network/refusals.py",
        old="alike = len({e.suspicion for e in endpoints}) == 1",
        new="alike = True",
        breaks="different guesses at different brokers are believed",
        tests=(
            "tests/core/network/test_network_authentication.py::test_attempts_that_give_reason_for_different_guesses_are_a_broken_network",
        ),
    ),
    Mutant(
        file="pykafka4/core/network/refusals.py",
        old="if endpoint.suspicion != endpoint.error.suspicion:",
        new="if not endpoint.suspicion:",
        breaks="different guesses at a broker add up",
        tests=(
            "tests/core/network/test_network_authentication.py::test_attempts_that_give_reason_for_different_guesses_are_a_broken_network",
        ),
    ),
    Mutant(
        file="pykafka4/core/network/authentication.py",
        old="        raise self._explained(failure)\n",
        new="        raise self._explained(failure) from failure\n",
        breaks="an error of authentication keeps the exception whose frames hold credentials",
        tests=(
            "tests/core/network/test_authentication.py::test_a_bug_in_a_mechanism_ends_the_connection_and_not_the_loop",
            "tests/core/network/test_authentication.py::test_a_challenge_that_the_mechanism_refuses_ends_it",
        ),
    ),
    Mutant(
        file="pykafka4/core/network/authentication.py",
        old="        except Exception as error:  # whatever",
        new="        except AuthenticationError as error:  # whatever",
        breaks="a bug in a mechanism crashes the loop",
        tests=("tests/core/network/test_authentication.py::test_a_bug_in_a_mechanism_ends_the_connection_and_not_the_loop",),
    ),
    Mutant(
        file="pykafka4/core/network/authentication.py",
        old='in time (socket_connection_setup_timeout_ms)", certain=False)',
        new='in time (socket_connection_setup_timeout_ms)", certain=True)',
        breaks="a broker that hangs is taken for one that refuses this client",
        tests=("tests/core/network/test_authentication.py::test_the_setup_timeout_says_what_did_not_happen_and_is_a_guess",),
    ),
    Mutant(
        file="pykafka4/core/network/authentication.py",
        old='refuse credentials in this way", certain=False)',
        new='refuse credentials in this way", certain=True)',
        breaks="a broker that stops is taken for one that refuses this client",
        tests=(
            "tests/core/network/test_authentication.py::test_a_connection_that_is_lost_during_the_exchange_may_be_a_refusal",
            "tests/core/network/test_network_authentication.py::test_a_guess_about_one_broker_is_never_told",
        ),
    ),
    Mutant(
        file="pykafka4/core/network/authentication.py",
        old="        if response.error_code == UNSUPPORTED:\n",
        new="        if False:\n",
        breaks="what a broker offers is not told",
        tests=("tests/core/network/test_authentication.py::test_an_unsupported_mechanism_lists_what_the_broker_offers",),
    ),
    Mutant(
        file="pykafka4/core/network/authentication.py",
        old="        if response.error_code:\n            raise _coded(",
        new="        if False:\n            raise _coded(",
        breaks="credentials are sent after a refused handshake",
        tests=("tests/core/network/test_authentication.py::test_another_error_of_the_handshake_is_named",),
    ),
    Mutant(
        file="pykafka4/core/network/authentication.py",
        old="        if response.error_code:\n            refusal",
        new="        if False:\n            refusal",
        breaks="refused credentials count as accepted",
        tests=("tests/core/network/test_authentication.py::test_refused_credentials_are_told_in_the_brokers_words",),
    ),
    Mutant(
        file="pykafka4/core/network/authentication.py",
        old="        if mechanism.slow(challenge):\n",
        new="        if False:\n",
        breaks="keys are derived on the loop",
        tests=("tests/core/network/test_authentication.py::test_a_slow_challenge_is_answered_by_a_job",),
    ),
    Mutant(
        file="pykafka4/core/network/authentication.py",
        old="return self._message(mechanism.next(challenge))",
        new="return None",
        breaks="a broker need not prove anything",
        tests=("tests/core/network/test_authentication.py::test_a_challenge_is_answered_until_the_mechanism_is_done",),
    ),
    Mutant(
        file="pykafka4/core/network/authentication.py",
        old="max(0, response.session_lifetime_ms)",
        new="response.session_lifetime_ms * 0",
        breaks="sessions are taken to last for ever",
        tests=("tests/core/network/test_reauthentication.py::test_it_authenticates_itself_again_at_85_percent_of_the_lifetime",),
    ),
    Mutant(
        file="pykafka4/core/network/authentication.py",
        old="            return self._error(str(error), certain=isinstance(error, ConfigError))\n",
        new="            return self._error(str(error), certain=True)\n",
        breaks="an issuer that is down is taken for a refusal",
        tests=("tests/core/network/test_authentication.py::test_an_error_of_this_package_is_told_and_keeps_its_certainty",),
    ),
    Mutant(
        file="pykafka4/core/network/authentication.py",
        old='raised {type(error).__name__}{place_of(error)}", certain=False)',
        new='raised {error}", certain=False)',
        breaks="the text of an application's exception is in messages",
        tests=(
            "tests/core/network/test_authentication.py::test_what_the_applications_callable_raises_is_named_by_type_and_place_and_is_no_refusal",
        ),
    ),
    Mutant(
        file="pykafka4/core/network/authentication.py",
        old='c if " " <= c <= "~" else "?" for c',
        new="c for c",
        breaks="a broker's list writes control characters to the terminal",
        tests=("tests/core/network/test_authentication.py::test_an_unsupported_mechanism_lists_what_the_broker_offers",),
    ),
    Mutant(
        file="pykafka4/core/network/jobs.py",
        old="            return None if self.is_over else self.run()\n",
        new="            return self.run()\n",
        breaks="credentials are asked for a connection that is gone",
        tests=("tests/core/network/test_network_authentication.py::test_a_step_of_a_closed_connection_is_not_begun",),
    ),
    Mutant(
        file="pykafka4/core/network/jobs.py",
        old="        except BaseException as error:",
        new="        except Exception as error:",
        breaks="SystemExit in the application's callable goes unnoticed until the time-out",
        tests=("tests/core/network/test_network_authentication.py::test_what_a_step_raises_is_a_result_and_the_thread_goes_on",),
    ),
    Mutant(
        file="pykafka4/core/network/jobs.py",
        old="        self._waiting = deque(task for task in self._waiting if not task.is_over)\n",
        new="",
        breaks="steps of closed connections pile up behind callables that hang",
        tests=(
            "tests/core/network/test_network_authentication.py::test_ten_thousand_attempts_with_a_hanging_callable_leave_nothing_behind",
        ),
    ),
    Mutant(
        file="pykafka4/core/network/jobs.py",
        old="while self._waiting and self._running < MOST:",
        new="while self._waiting:",
        breaks="steps pile up in the helper behind callables that hang",
        tests=(
            "tests/core/network/test_network_authentication.py::test_ten_thousand_attempts_with_a_hanging_callable_leave_nothing_behind",
        ),
    ),
    Mutant(
        file="pykafka4/core/network/jobs.py",
        old="            self._running -= 1\n",
        new="",
        breaks="after four steps no other one is begun",
        tests=(
            "tests/core/network/test_network_authentication.py::test_while_four_steps_hang_the_others_wait_and_begin_as_soon_as_one_is_over",
        ),
    ),
    Mutant(
        file="pykafka4/core/network/refusals.py",
        old="        was_accepted = bool(self._accepted) if error.is_of_client else broker in self._accepted\n",
        new="        was_accepted = False\n",
        breaks="records fail while the password of a running client is being replaced",
        tests=(
            "tests/core/network/test_network_authentication.py::test_a_broker_that_never_accepted_this_client_is_told_and_one_that_did_is_not",
        ),
    ),
    Mutant(
        file="pykafka4/core/network/refusals.py",
        old="        was_accepted = bool(self._accepted) if error.is_of_client else broker in self._accepted\n",
        new="        was_accepted = bool(self._accepted)\n",
        breaks="records for a broker with a wrong certificate wait for their time-outs",
        tests=(
            "tests/core/network/test_network_authentication.py::test_a_broker_that_never_accepted_this_client_is_told_and_one_that_did_is_not",
        ),
    ),
    Mutant(
        file="pykafka4/core/network/authentication.py",
        old="            refusal.is_of_client = True\n",
        new="",
        breaks="while a password is being replaced, records for a broker that is new to the client fail",
        tests=(
            "tests/core/network/test_network_authentication.py::test_a_running_client_that_is_refused_keeps_what_waits_for_a_broker_that_is_new_to_it[password]",
        ),
    ),
    Mutant(
        file="pykafka4/core/network/refusals.py",
        old="        was_accepted = bool(self._accepted) if error.is_of_client else",
        new="        was_accepted = error.is_of_client or",
        breaks="a wrong password is told only after a time-out",
        tests=(
            "tests/core/network/test_network_authentication.py::test_a_running_client_that_is_refused_keeps_what_waits_for_a_broker_that_is_new_to_it",
        ),
    ),
    Mutant(
        file="pykafka4/core/network/refusals.py",
        old="if not self._accepted and not self._ready and (refusal",
        new="if not self._ready and (refusal",
        breaks="a whole cluster that once accepted this client refuses it",
        tests=("tests/core/network/test_network_authentication.py::test_a_cluster_that_once_accepted_this_client_does_not_refuse_it",),
    ),
    Mutant(
        file="pykafka4/core/network/refusals.py",
        old="        if any(e.error is None for e in endpoints):\n",
        new="        if False:\n",
        breaks="one bootstrap server speaks for the cluster",
        tests=(
            "tests/core/network/test_network_authentication.py::test_the_cluster_refuses_this_client_once_every_bootstrap_server_has_failed",
        ),
    ),
    Mutant(
        file="pykafka4/core/network/refusals.py",
        old="e.refusals >= GUESSES and ",
        new="",
        breaks="a guess is believed the first time",
        tests=(
            "tests/core/network/test_network_authentication.py::test_a_guess_about_the_cluster_is_told_when_every_broker_has_given_reason_for_it_three_times",
        ),
    ),
    Mutant(
        file="pykafka4/core/network/refusals.py",
        old=" and now >= e.refused_since + DOUBT",
        new="",
        breaks="records fail because the network begins to work a second late",
        tests=("tests/core/network/test_network_authentication.py::test_a_guess_about_the_cluster_is_not_told_in_the_first_seconds",),
    ),
    Mutant(
        file="pykafka4/core/network/refusals.py",
        old="        return error.certain and not error.is_local and",
        new="        return error.certain and",
        breaks="records of a running client fail because a token cannot be had for a moment",
        tests=(
            "tests/core/network/test_network_authentication.py::test_a_running_client_whose_callable_fails_keeps_what_waits_for_a_broker_that_is_new_to_it",
        ),
    ),
    Mutant(
        file="pykafka4/core/network/refusals.py",
        old=" if endpoint.error.is_local else INFINITY",
        new=" if endpoint.error.is_local else self._without_credentials",
        breaks="a callable that failed once counts for ever",
        tests=("tests/core/network/test_network_authentication.py::test_a_callable_that_failed_and_works_again_is_no_refusal",),
    ),
    Mutant(
        file="pykafka4/core/network/refusals.py",
        old="        if now >= self._without_credentials + DOUBT:\n",
        new="        if now >= self._without_credentials:\n",
        breaks="a callable that fails once fails records",
        tests=(
            "tests/core/network/test_network_authentication.py::test_a_callable_that_fails_for_seconds_is_told_whatever_other_servers_did",
        ),
    ),
    Mutant(
        file="pykafka4/core/network/refusals.py",
        old="        if now >= self._without_credentials + DOUBT:\n",
        new="        if False:\n",
        breaks="a callable that hangs is told after half a minute",
        tests=("tests/core/network/test_network_authentication.py::test_a_callable_that_hangs_is_told_with_the_first_attempt",),
    ),
    Mutant(
        file="pykafka4/core/network/refusals.py",
        old="        return error.certain and not error.is_local",
        new="        return not error.is_local",
        breaks="a guess about one broker fails its records",
        tests=("tests/core/network/test_network_authentication.py::test_a_guess_about_one_broker_is_never_told",),
    ),
    Mutant(
        file="pykafka4/core/network/refusals.py",
        old="        else:\n            endpoint.refusals = 0\n",
        new="        else:\n            pass\n",
        breaks="failures of other kinds count as refusals",
        tests=("tests/core/network/test_network_authentication.py::test_another_failure_ends_the_row_of_refusals",),
    ),
    Mutant(
        file="pykafka4/core/network/refusals.py",
        old="FIRST_PAUSE * 2 ** min(endpoint.refusals - 1, 10)",
        new="FIRST_PAUSE",
        breaks="accounts are locked by frequent attempts",
        tests=("tests/core/network/test_network_authentication.py::test_pauses_after_refusals_double_from_half_a_second_to_five",),
    ),
    Mutant(
        file="pykafka4/core/network/refusals.py",
        old="        self._accepted.add(broker_of(endpoint.node))\n        endpoint.refusals = 0\n",
        new="        self._accepted.add(broker_of(endpoint.node))\n",
        breaks="refusals before a success still count",
        tests=("tests/core/network/test_network_authentication.py::test_a_success_ends_the_row_of_refusals",),
    ),
    Mutant(
        file="pykafka4/core/network/authentication.py",
        old='        return self._error(f"{who} raised {type(error).__name__}{place_of(error)}", certain=False)',
        new='        reason = self._error(f"{who} raised {type(error).__name__}{place_of(error)}", certain=False)\n        reason.__cause__ = error\n        return reason',
        breaks="an exception of the application, which may repeat the password, is a cause",
        tests=("tests/secrets/test_secrets.py::test_a_callable_that_raises_with_the_secret_in_its_message",),
    ),
)
