"""Options that are ignored, where only a unit test with a fake clock or a small limit shows it; `tests/test_options.py` points here."""

from __future__ import annotations

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
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
        tests=("tests/core/network/test_network.py::test_want_is_remembered_through_failures_and_rests_grow_between_attempts",),
    ),
    Mutant(
        file="pykafka4/core/backoff.py",
        old="config.reconnect_backoff_max_ms / 1000, random",
        new="60.0, random",
        breaks="reconnect_backoff_max_ms is ignored",
        tests=("tests/core/network/test_network.py::test_want_is_remembered_through_failures_and_rests_grow_between_attempts",),
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
        file="pykafka4/net/loop.py",
        old="SocketTransport(engine.config.receive_message_max_bytes,",
        new="SocketTransport(100 * 1024 * 1024,",
        breaks="receive_message_max_bytes is ignored",
        tests=("tests/consumer/test_unreadable.py::test_a_batch_that_is_not_let_in_is_told_and_keeps_no_other_partition_waiting",),
    ),
    Mutant(
        file="pykafka4/core/consumer/fetch_answers.py",
        old="max_decompressed=self._config.max_decompressed_bytes",
        new="max_decompressed=64 * 1024 * 1024",
        breaks="max_decompressed_bytes is ignored",
        tests=("tests/consumer/test_unreadable.py::test_a_batch_that_unpacks_to_too_much_is_refused_by_name_and_can_be_passed",),
    ),
    Mutant(
        file="pykafka4/core/producer/parking.py",
        old="idle = self._config.metadata_max_idle_ms / 1000",
        new="idle = 300.0",
        breaks="metadata_max_idle_ms is ignored",
        tests=("tests/test_wishes.py::test_topics_a_producer_has_not_used_for_long_are_let_go_and_can_be_used_again",),
    ),
    Mutant(
        file="pykafka4/core/consumer/fetcher.py",
        old="room = self._config.prefetch_bytes - (self.positions",
        new="room = 64 * 1024 * 1024 - (self.positions",
        breaks="prefetch_bytes is ignored",
        tests=("tests/core/consumer/test_fetcher_room.py::test_one_answer_is_asked_to_fit_into_the_room_that_is_left",),
    ),
    Mutant(
        file="pykafka4/core/group/requests.py",
        old="Protocol(name=name, metadata",
        new='Protocol(name="roundrobin", metadata',
        breaks="partition_assignment_strategy is ignored",
        tests=("tests/test_options.py::test_the_option_reaches_the_wire_or_the_behaviour[partition_assignment_strategy]",),
    ),
    Mutant(
        file="pykafka4/core/network/network.py",
        old="self._max_idle = config.connections_max_idle_ms / 1000",
        new="self._max_idle = 540.0",
        breaks="connections_max_idle_ms is ignored",
        tests=("tests/core/network/test_network.py::test_an_unused_connection_is_closed_and_one_in_use_is_not",),
    ),
    Mutant(
        file="pykafka4/core/metadata/cluster.py",
        old="self._config.metadata_max_age_ms / 1000",
        new="300.0",
        breaks="metadata_max_age_ms is ignored",
        tests=(
            "tests/core/metadata/test_cluster.py::test_the_picture_is_renewed_before_its_maximum_age_and_not_in_step_with_other_clients",
        ),
    ),
    Mutant(
        file="pykafka4/wire/protocol/messages_fetch.py",
        old='    isolation_level: int = wire(int8, "4+", ignorable=True)',
        new='    isolation_level: int = wire(int8, "4+", default=1, ignorable=True)',
        breaks="consumers read committed records only",
        tests=("tests/test_options.py::test_the_option_reaches_the_wire_or_the_behaviour[isolation_level]",),
    ),
    Mutant(
        file="pykafka4/core/group/classic.py",
        old="        interval = self._config.heartbeat_interval_ms / 1000",
        new="        interval = 3.0",
        breaks="heartbeat_interval_ms is ignored",
        tests=("tests/core/consumer/test_consumer_options.py::test_heartbeats_follow_each_other_at_their_interval",),
    ),
    Mutant(
        file="pykafka4/core/backoff.py",
        old="config.retry_backoff_max_ms / 1000, random",
        new="60.0, random",
        breaks="retry_backoff_max_ms is ignored",
        tests=("tests/core/producer/test_sender_options.py::test_the_pause_before_another_try_grows_to_its_maximum",),
    ),
    Mutant(
        file="pykafka4/core/network/network.py",
        old='"""The number of the connection to `node`, never used for another; None while it is not READY."""\n        connection = self._ready.get(node)\n        return None if connection is None else connection.link',
        new='"""The number of the connection to `node`, never used for another; None while it is not READY."""\n        return None',
        breaks="a new connection to the leader is not noticed",
        tests=("tests/core/network/test_network.py::test_the_number_of_a_connection_is_that_of_a_ready_one_and_another_after_a_loss",),
    ),
)
