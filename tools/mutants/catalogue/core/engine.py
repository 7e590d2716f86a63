"""Bugs of the engine, which isolates failures of machines, and of back-off."""

from __future__ import annotations

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

ONE_MACHINE = "tests/core/test_engine.py::test_an_exception_ends_its_machine_and_fails_its_waiters_and_the_others_go_on"

MUTANTS: Final = (
    Mutant(
        file="pykafka4/core/engine.py",
        old="                    request.on_reply = partial(self._answer, slot, request.on_reply)\n",
        new="                    pass\n",
        breaks="an exception in the answer to a request ends the client",
        tests=(ONE_MACHINE,),
    ),
    Mutant(
        file="pykafka4/core/engine.py",
        old="jobs += [Job(job.run, partial(self._answer, slot, job.then), job.threads) for job in effects.jobs]",
        new="jobs += effects.jobs",
        breaks="an exception at the end of a job ends the client",
        tests=(ONE_MACHINE,),
    ),
    Mutant(
        file="pykafka4/core/engine.py",
        old="        self._deliver += self._shut_down(slot.machine, reason)\n        for listener",
        new="        self._shut_down(slot.machine, reason)\n        for listener",
        breaks="the callbacks of a machine that failed are lost",
        tests=(ONE_MACHINE,),
    ),
    Mutant(
        file="pykafka4/core/engine.py",
        old="        self._slots = tuple(other for other in self._slots if other is not slot)\n        log.critical",
        new="        log.critical",
        breaks="a machine that failed is polled again",
        tests=(ONE_MACHINE,),
    ),
    Mutant(
        file="pykafka4/core/engine.py",
        old="        if slot is not None and slot.failure is not None:\n            return\n",
        new="",
        breaks="calls for a machine that failed still reach it",
        tests=("tests/core/test_engine.py::test_answers_jobs_and_calls_of_a_failed_machine_are_dropped",),
    ),
    Mutant(
        file="pykafka4/core/backoff.py",
        old="cls(config.retry_backoff_ms / 1000,",
        new="cls(0.05,",
        breaks="retry_backoff_ms is ignored",
        tests=(
            "tests/core/producer/test_sender_options.py::test_a_refused_batch_goes_out_again_after_a_pause_that_grows_and_that_an_acknowledgement_resets",
        ),
    ),
    Mutant(
        file="pykafka4/core/backoff.py",
        old="cls(config.reconnect_backoff_ms / 1000,",
        new="cls(0.1,",
        breaks="reconnect_backoff_ms is ignored",
        tests=("tests/core/network/test_network.py::test_a_wanted_connection_is_retried_with_a_growing_back_off",),
    ),
    Mutant(
        file="pykafka4/core/backoff.py",
        old="config.reconnect_backoff_max_ms / 1000, random",
        new="60.0, random",
        breaks="reconnect_backoff_max_ms is ignored",
        tests=("tests/core/network/test_network.py::test_a_wanted_connection_is_retried_with_a_growing_back_off",),
    ),
    Mutant(
        file="pykafka4/core/backoff.py",
        old="cls(config.socket_connection_setup_timeout_ms / 1000,",
        new="cls(5.0,",
        breaks="socket_connection_setup_timeout_ms is ignored",
        tests=("tests/core/network/test_network.py::test_a_silent_address_is_given_up_at_the_setup_timeout_which_grows_to_its_maximum",),
    ),
    Mutant(
        file="pykafka4/core/backoff.py",
        old="config.socket_connection_setup_timeout_max_ms / 1000, random",
        new="300.0, random",
        breaks="socket_connection_setup_timeout_max_ms is ignored",
        tests=("tests/core/network/test_network.py::test_a_silent_address_is_given_up_at_the_setup_timeout_which_grows_to_its_maximum",),
    ),
    Mutant(
        file="pykafka4/core/backoff.py",
        old="config.retry_backoff_max_ms / 1000, random",
        new="60.0, random",
        breaks="retry_backoff_max_ms is ignored",
        tests=("tests/core/producer/test_sender_options.py::test_the_pause_before_another_try_grows_to_its_maximum",),
    ),
)
