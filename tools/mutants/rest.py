"""Bugs of the error table, searches for offsets, assignment of partitions, parked records and the model server."""

from __future__ import annotations

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
    Mutant(
        file="pykafka4/error_table.py",
        old='(7, "REQUEST_TIMED_OUT", Y, METADATA, RESEND, MAYBE)',
        new='(7, "REQUEST_TIMED_OUT", Y, METADATA, FAIL, MAYBE)',
        breaks="REQUEST_TIMED_OUT fails instead of being sent again",
        tests=(
            "tests/core/producer/test_sender_numbers.py::test_a_batch_that_may_be_in_the_log_keeps_its_number_whatever_happens_elsewhere",
        ),
    ),
    Mutant(
        file="pykafka4/error_table.py",
        old='(2, "CORRUPT_MESSAGE", Y, NOTHING, RESEND, NO)',
        new='(2, "CORRUPT_MESSAGE", Y, NOTHING, FAIL, NO)',
        breaks="CORRUPT_MESSAGE fails instead of being sent again",
        tests=("tests/core/producer/test_sender_options.py::test_a_batch_refused_in_passing_goes_out_again_as_it_was",),
    ),
    Mutant(
        file="pykafka4/error_table.py",
        old='"UNKNOWN_TOPIC_ID", Y, METADATA, RESEND,',
        new='"UNKNOWN_TOPIC_ID", Y, METADATA, FAIL,',
        breaks="UNKNOWN_TOPIC_ID fails instead of being sent again",
        tests=(
            "tests/core/producer/test_sender_numbers.py::test_a_batch_that_may_be_in_the_log_keeps_its_number_whatever_happens_elsewhere",
        ),
    ),
    Mutant(
        file="pykafka4/error_table.py",
        old='"UNKNOWN_LEADER_EPOCH", Y, METADATA, RESEND,',
        new='"UNKNOWN_LEADER_EPOCH", Y, METADATA, FAIL,',
        breaks="UNKNOWN_LEADER_EPOCH fails instead of being sent again",
        tests=("tests/core/producer/test_sender_options.py::test_a_batch_refused_in_passing_goes_out_again_as_it_was",),
    ),
    Mutant(
        file="pykafka4/error_table.py",
        old='(6, "NOT_LEADER_OR_FOLLOWER", Y, METADATA, RESEND, MAYBE)',
        new='(6, "NOT_LEADER_OR_FOLLOWER", Y, METADATA, RESEND, NO)',
        breaks="NOT_LEADER_OR_FOLLOWER counts as not written, though it can come after the append",
        tests=("tests/core/producer/test_sender_numbers.py::test_a_number_that_may_be_in_the_log_is_not_given_to_another_batch",),
    ),
    Mutant(
        file="pykafka4/error_table.py",
        old='(3, "UNKNOWN_TOPIC_OR_PARTITION", Y, METADATA, RESEND, MAYBE)',
        new='(3, "UNKNOWN_TOPIC_OR_PARTITION", Y, METADATA, RESEND, NO)',
        breaks="UNKNOWN_TOPIC_OR_PARTITION counts as not written, though it can come after the append",
        tests=("tests/core/producer/test_sender_numbers.py::test_a_number_that_may_be_in_the_log_is_not_given_to_another_batch",),
    ),
    Mutant(
        file="pykafka4/error_table.py",
        old='(20, "NOT_ENOUGH_REPLICAS_AFTER_APPEND", Y, NOTHING, RESEND, MAYBE)',
        new='(20, "NOT_ENOUGH_REPLICAS_AFTER_APPEND", Y, NOTHING, RESEND, NO)',
        breaks="NOT_ENOUGH_REPLICAS_AFTER_APPEND counts as not written",
        tests=("tests/core/producer/test_sender_numbers.py::test_a_number_that_may_be_in_the_log_is_not_given_to_another_batch",),
    ),
    Mutant(
        file="pykafka4/error_table.py",
        old='(19, "NOT_ENOUGH_REPLICAS", Y, NOTHING, RESEND, NO)',
        new='(19, "NOT_ENOUGH_REPLICAS", Y, NOTHING, FAIL, NO)',
        breaks="NOT_ENOUGH_REPLICAS fails instead of being sent again",
        tests=("tests/core/producer/test_sender.py::test_a_failed_batch_is_sent_again_before_those_behind_it",),
    ),
    Mutant(
        file="pykafka4/error_table.py",
        old='(10, "MESSAGE_TOO_LARGE", N, NOTHING, SPLIT, NO)',
        new='(10, "MESSAGE_TOO_LARGE", N, NOTHING, FAIL, NO)',
        breaks="a batch that is too large is not split",
        tests=("tests/core/producer/test_sender_split.py::test_too_large_a_batch_is_split_in_order",),
    ),
    Mutant(
        file="pykafka4/core/consumer/searches.py",
        old="timestamp=TIMESTAMPS[search.target]",
        new="timestamp=-1",
        breaks="the earliest offset is never asked for",
        tests=("tests/core/consumer/test_searches.py::test_two_questions_about_one_partition_go_one_after_the_other",),
    ),
    Mutant(
        file="pykafka4/core/consumer/searches.py",
        old="current_leader_epoch=epoch, timestamp",
        new="current_leader_epoch=-1, timestamp",
        breaks="ListOffsets does not name the leader's epoch",
        tests=("tests/core/consumer/test_consumer_options.py::test_a_search_for_an_offset_names_what_is_wanted_and_the_leaders_epoch",),
    ),
    Mutant(
        file="pykafka4/core/consumer/searches.py",
        old="            self._recovery.healthy(search.tp)\n            self._end(search)",
        new="            self._end(search)",
        breaks="a partition whose offset was found counts as failing",
        tests=("tests/core/consumer/test_consumer_options.py::test_a_partition_whose_offset_was_found_is_healthy",),
    ),
    Mutant(
        file="pykafka4/core/consumer/searches.py",
        old="            if search.wanted():\n                search.found",
        new="            if True:\n                search.found",
        breaks="an offset counts for a claim that ended",
        tests=("tests/core/consumer/test_searches.py::test_what_nobody_waits_for_any_more_is_not_asked_and_not_told",),
    ),
    Mutant(
        file="pykafka4/core/group/assignors.py",
        old="first = i * each + min(i, extra)",
        new="first = i * each",
        breaks="ranges of partitions overlap",
        tests=("tests/core/group/test_assignors.py::test_two_topics_of_three_partitions_give_the_first_member_one_more_of_each",),
    ),
    Mutant(
        file="pykafka4/core/group/assignors.py",
        old="yield range(first, first + each + (i < extra))",
        new="yield range(first, first + each)",
        breaks="partitions are assigned to nobody",
        tests=("tests/core/group/test_assignors.py::test_two_topics_of_three_partitions_give_the_first_member_one_more_of_each",),
    ),
    Mutant(
        file="pykafka4/core/group/assignors.py",
        old="    return member.instance_id is None, name.encode(",
        new="    return True, name.encode(",
        breaks="static members are not dealt to first",
        tests=(
            "tests/core/group/test_assignors.py::test_static_members_come_first_by_instance_id_and_keep_their_share_under_a_new_member_id",
        ),
    ),
    Mutant(
        file="pykafka4/core/group/assignors.py",
        old='name.encode("utf-16-be", "surrogatepass")',
        new='name.encode("utf-8", "surrogatepass")',
        breaks="members are ranked by code points, not as Java does",
        tests=("tests/core/group/test_assignors.py::test_member_ids_are_ordered_as_java_orders_strings",),
    ),
    Mutant(
        file="pykafka4/core/group/leadership.py",
        old="        if self._silent and now < self.due:\n            return None\n",
        new="",
        breaks="a leader deals out topics that it has not looked up",
        tests=("tests/core/group/test_leadership.py::test_unknown_topics_are_waited_for_until_due",),
    ),
    Mutant(
        file="pykafka4/core/group/leadership.py",
        old="                self._different.add(topic)\n",
        new="                pass\n",
        breaks="a leader does not notice new partitions",
        tests=("tests/core/group/test_leadership.py::test_a_new_deal_is_called_for_when_topics_grow_appear_or_go",),
    ),
    Mutant(
        file="pykafka4/core/producer/parking.py",
        old="        if parked and oldest + patience <= now:",
        new="        if False:",
        breaks="records for a topic that does not exist never fail",
        tests=("tests/core/producer/test_parking.py::test_a_topic_that_stays_unknown_gives_its_records_back_in_time_with_the_reason",),
    ),
    Mutant(
        file="pykafka4/core/producer/parking.py",
        old="patience = min(self._config.unknown_topic_timeout_ms, self._config.delivery_timeout_ms) / 1000",
        new="patience = self._config.delivery_timeout_ms / 1000",
        breaks="unknown_topic_timeout_ms is ignored",
        tests=("tests/core/producer/test_parking.py::test_a_topic_that_stays_unknown_gives_its_records_back_in_time_with_the_reason",),
    ),
    Mutant(
        file="pykafka4/core/producer/parking.py",
        old="            if topic in self._waiting or self._busy(topic):\n",
        new="            if topic in self._waiting:\n",
        breaks="a topic with batches under way is let go",
        tests=("tests/core/producer/test_parking.py::test_a_topic_whose_batches_wait_is_not_idle",),
    ),
    Mutant(
        file="pykafka4/core/producer/parking.py",
        old="            return self._drop_empty(topic, self._config.retry_backoff_ms / 1000, now) if topic in self._waiting else INFINITY\n",
        new="            return INFINITY\n",
        breaks="a record for a forbidden topic has no outcome when the first send to it raised",
        tests=("tests/core/producer/test_parking.py::test_a_record_for_a_forbidden_topic_fails_soon_although_the_first_send_to_it_raised",),
    ),
    Mutant(
        file="pykafka4/core/producer/parking.py",
        old="        if error is not None and not error.retriable:\n            self.fail(",
        new="        if False:\n            self.fail(",
        breaks="a topic that must not be written to is waited for",
        tests=("tests/core/producer/test_parking.py::test_an_error_that_will_not_go_away_gives_the_records_back_at_once",),
    ),
    Mutant(
        file="pykafka4/testing/server/sockets.py",
        old="        sock.shutdown(socket.SHUT_RDWR)\n",
        new="        pass\n",
        breaks="connections and ports of the model server stay open while a forked child lives",
        tests=("tests/testing/test_server_misuse.py::test_connections_and_ports_are_closed_though_a_forked_child_lives",),
    ),
    Mutant(
        file="pykafka4/testing/faults/checks.py",
        old="                given[name] = check(name, value, cluster)\n",
        new="                pass\n",
        breaks="a wrong order to the model is found out later, far from its cause",
        tests=("tests/testing/test_checks.py::test_a_wrong_order_is_refused_when_it_is_given",),
    ),
    Mutant(
        file="pykafka4/testing/cluster/settings.py",
        old="return {name: checks[name](name, value) for name, value in settings.items()}",
        new="return dict(settings)",
        breaks="a wrong setting of a topic ends the model server at the first Produce",
        tests=("tests/testing/test_checks.py::test_a_wrong_setting_is_refused_and_no_topic_is_left",),
    ),
    Mutant(
        file="pykafka4/testing/requests/session.py",
        old="decode_request(frame, whole=False)",
        new="decode_request(frame)",
        breaks="the model server closes the connection where a broker ignores the bytes behind a request",
        tests=("tests/testing/test_model.py::test_bytes_behind_a_request_are_ignored_as_brokers_do",),
    ),
    Mutant(
        file="pykafka4/testing/requests/session.py",
        old="            self._refuse(frame, str(error))\n",
        new="            self.close()\n",
        breaks="the model server closes the connection of a request that it cannot decode, and nothing says why",
        tests=("tests/testing/test_model.py::test_a_request_that_cannot_be_decoded_is_logged",),
    ),
)
