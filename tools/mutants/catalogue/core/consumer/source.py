"""Bugs of the Fetch to one broker, of fetch sessions, and of the choice of the broker to read from."""

from __future__ import annotations

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
    Mutant(
        file="pykafka4/core/consumer/sources.py",
        old="if position is not None and position.fetchable else None",
        new="if position is not None and position.offset >= 0 else None",
        breaks="paused partitions are fetched",
        tests=("tests/core/consumer/test_fetcher.py::test_paused_partitions_are_not_fetched_until_resumed",),
    ),
    Mutant(
        file="pykafka4/core/consumer/sources.py",
        old="        if source.idle and source.node not in self._cluster.brokers:\n            self._by_node.pop(source.node, None)\n",
        new="        pass\n",
        breaks="brokers that are gone are kept for ever",
        tests=("tests/core/consumer/test_fetch_session.py::test_a_removed_broker_is_forgotten",),
    ),
    Mutant(
        file="pykafka4/core/consumer/source.py",
        old="min_bytes=self._config.fetch_min_bytes,",
        new="min_bytes=1,",
        breaks="fetch_min_bytes is ignored",
        tests=("tests/core/consumer/test_consumer_options.py::test_fetch_carries_the_option",),
    ),
    Mutant(
        file="pykafka4/core/consumer/source.py",
        old="                now.position.claim.end = before.position.claim.end\n",
        new="                pass\n",
        breaks="after a seek the end of a log without news stays unknown",
        tests=(
            "tests/core/consumer/test_fetch_session.py::test_the_end_of_a_log_is_known_after_a_seek_although_the_broker_does_not_repeat_it",
        ),
    ),
    Mutant(
        file="pykafka4/core/consumer/source.py",
        old="last_fetched_epoch=one.epoch,",
        new="last_fetched_epoch=-1,",
        breaks="the last epoch that was read is not sent to brokers",
        tests=("tests/core/consumer/test_source.py::test_the_last_epoch_read_is_named_where_the_broker_takes_it",),
    ),
    Mutant(
        file="pykafka4/core/consumer/source.py",
        old="current_leader_epoch=one.leader_epoch,",
        new="current_leader_epoch=-1,",
        breaks="Fetch does not name the leader's epoch",
        tests=("tests/core/consumer/test_source.py::test_each_leader_gets_one_request_with_all_its_partitions_over_a_lane_for_fetches",),
    ),
    Mutant(
        file="pykafka4/core/consumer/source.py",
        old="budget = max(1, min(budget, self._config.receive_message_max_bytes - FRAME - PER_PARTITION * len(used.asked)))",
        new="budget = max(1, budget)",
        breaks="Fetch asks for more than receive_message_max_bytes lets in",
        tests=("tests/core/consumer/test_fetcher_room.py::test_fetches_never_request_more_than_the_answer_limit",),
    ),
    Mutant(
        file="pykafka4/core/consumer/source.py",
        old="in sorted(chosen, key=_turn):",
        new="in chosen:",
        breaks="a Fetch names partitions in the order in which they came, whoever was served last",
        tests=(
            "tests/core/consumer/test_fetcher_room.py::test_partitions_with_a_backlog_are_read_in_turn_whatever_the_application_does",
            "tests/core/consumer/test_fetcher_room.py::test_a_partition_that_fails_again_and_again_does_not_starve_the_others",
            "tests/core/consumer/test_fetcher_room.py::test_a_partition_without_data_does_not_stay_the_first",
        ),
    ),
    Mutant(
        file="pykafka4/core/consumer/source.py",
        old="            return self.left_behind.lane\n        busy = self.left_behind or self.in_flight\n",
        new="            return self.in_flight.lane\n        busy = self.left_behind\n",
        breaks="a search waits behind the Fetch under way",
        tests=("tests/core/consumer/test_source.py::test_a_search_does_not_wait_behind_the_fetch_under_way",),
    ),
    Mutant(
        file="pykafka4/core/consumer/source.py",
        old="                forgotten.append(before)\n",
        new="                pass\n",
        breaks="a session goes on with partitions that are not to be read",
        tests=("tests/core/consumer/test_fetch_session.py::test_a_partition_not_read_now_leaves_the_session_and_is_named_again_later",),
    ),
    Mutant(
        file="pykafka4/core/consumer/source.py",
        old="(session.by_id and now.topic_id != before.topic_id)",
        new="now.topic_id != before.topic_id",
        breaks="by name, a topic created again is named and forgotten",
        tests=("tests/core/consumer/test_fetch_session.py::test_by_name_a_topic_created_again_is_not_forgotten",),
    ),
    Mutant(
        file="pykafka4/core/consumer/source.py",
        old="(session.by_id and now.topic_id != before.topic_id)",
        new="False",
        breaks="a session goes on with a topic that was deleted",
        tests=("tests/core/consumer/test_fetch_session.py::test_a_topic_created_again_is_another_partition_by_id",),
    ),
    Mutant(
        file="pykafka4/core/consumer/source.py",
        old="(before is None or now[1:] != before[1:])",
        new="(before is None or now.offset != before.offset)",
        breaks="another leader epoch or limit is not sent to a broker",
        tests=("tests/core/consumer/test_fetch_session.py::test_everything_sent_about_a_partition_is_sent_again_when_it_changes",),
    ),
    Mutant(
        file="pykafka4/core/consumer/source.py",
        old="            session.end()\n            return isinstance",
        new="            return isinstance",
        breaks="a session goes on after a Fetch without an answer",
        tests=("tests/core/consumer/test_fetch_session.py::test_after_a_fetch_without_an_answer_everything_is_named_again",),
    ),
    Mutant(
        file="pykafka4/core/consumer/source.py",
        old="        if not fetch.incremental or response.error_code not in SESSION_ERRORS:\n            return False\n",
        new="        return False\n",
        breaks="a session that its broker has forgotten takes all its partitions offline",
        tests=(
            "tests/core/consumer/test_fetch_session.py::test_a_session_that_the_broker_refuses_is_opened_again_at_once_and_nothing_goes_offline",
        ),
    ),
    Mutant(
        file="pykafka4/core/consumer/source.py",
        old="        if self._refusals >= REFUSALS:\n",
        new="        if False:\n",
        breaks="a broker that refuses each session is asked for another for ever",
        tests=("tests/core/consumer/test_fetch_session.py::test_a_broker_that_refuses_each_session_is_asked_without_for_a_while",),
    ),
    Mutant(
        file="pykafka4/core/consumer/source.py",
        old="self._refusals = 0 if fetch.incremental else self._refusals",
        new="pass",
        breaks="refused sessions are counted over days",
        tests=("tests/core/consumer/test_fetch_session.py::test_refusals_with_good_rounds_between_them_do_not_count_together",),
    ),
    Mutant(
        file="pykafka4/core/consumer/source.py",
        old="alone is None and not busy and now",
        new="alone is None and now",
        breaks="two Fetches of a session are in flight",
        tests=(
            "tests/core/consumer/test_fetch_session.py::test_beside_a_fetch_that_is_held_back_everything_is_asked_for_without_a_session",
        ),
    ),
    Mutant(
        file="pykafka4/core/consumer/source.py",
        old="in_session = alone is None and not busy",
        new="in_session = not busy",
        breaks="a partition asked for by itself is asked for in the session, with all others",
        tests=(
            "tests/core/consumer/test_fetch_session.py::test_partitions_whose_answer_was_too_large_are_asked_for_one_by_one_without_a_session",
        ),
    ),
    Mutant(
        file="pykafka4/core/consumer/source.py",
        old="            if position is not None and tp not in session.asked and min(",
        new="            if False and min(",
        breaks="a partition that is paused and resumed is never read while others have a backlog",
        tests=(
            "tests/core/consumer/test_fetch_session.py::test_a_partition_that_is_paused_again_and_again_is_read_although_it_always_comes_last_in_the_session",
        ),
    ),
    Mutant(
        file="pykafka4/core/consumer/source.py",
        old=" or asked.topic_id not in (None, asked.position.topic_id):",
        new=":",
        breaks="records of a topic that was deleted are taken for those of its successor",
        tests=("tests/core/consumer/test_fetch_session.py::test_a_topic_created_again_is_another_partition_by_id",),
    ),
    Mutant(
        file="pykafka4/core/consumer/source.py",
        old="                self._news[tp] = None\n                if tp in self.full",
        new="                if tp in self.full",
        breaks="a session goes on with partitions that have no room",
        tests=("tests/core/consumer/test_fetch_session.py::test_partitions_without_room_leave_the_session_until_they_were_read",),
    ),
    Mutant(
        file="pykafka4/core/consumer/source.py",
        old="            self.session = FetchSession(self.session.number)\n            self._news.clear()\n",
        new="            pass\n",
        breaks="what was read from a broker is remembered when nothing is read there any more",
        tests=("tests/core/consumer/test_fetch_session.py::test_nothing_is_kept_of_partitions_that_are_not_read_any_more",),
    ),
    Mutant(
        file="pykafka4/core/consumer/fetch_session.py",
        old="self.epoch = self.epoch + 1 if self.epoch < MAX_INT32 else 1",
        new="self.epoch += 1",
        breaks="the epoch of a session grows beyond what fits",
        tests=("tests/core/consumer/test_fetch_session.py::test_epochs_go_on_at_1_after_the_largest",),
    ),
    Mutant(
        file="pykafka4/core/consumer/fetch_session.py",
        old="        elif before is not None:\n            del self.asked[tp]\n",
        new="",
        breaks="a partition that a session has forgotten is not named again",
        tests=("tests/core/consumer/test_fetch_session.py::test_a_partition_not_read_now_leaves_the_session_and_is_named_again_later",),
    ),
    Mutant(
        file="pykafka4/core/consumer/fetch_session.py",
        old="            self.limit -= before.limit\n",
        new="",
        breaks="the bytes kept free for a session grow with every change",
        tests=("tests/core/consumer/test_fetch_session.py::test_the_bytes_kept_free_are_those_of_the_partitions_that_are_asked_for",),
    ),
    Mutant(
        file="pykafka4/core/consumer/fetch_session.py",
        old="        elif self.is_open or not number:\n",
        new="        elif not number:\n",
        breaks="a session that the broker has replaced goes on",
        tests=("tests/core/consumer/test_fetch_session.py::test_a_session_that_the_broker_closed_is_opened_again",),
    ),
    Mutant(
        file="pykafka4/core/consumer/fetch_session.py",
        old="if version < SESSIONS_FROM or self.by_id is not (version >= BY_ID_FROM):",
        new="if version < SESSIONS_FROM:",
        breaks="a session goes on by name after it began by id",
        tests=("tests/core/consumer/test_fetch_session.py::test_a_session_does_not_survive_another_kind_of_version",),
    ),
    Mutant(
        file="pykafka4/core/consumer/fetch_session.py",
        old="if version < SESSIONS_FROM or self.by_id is not (version >= BY_ID_FROM):",
        new="if self.by_id is not (version >= BY_ID_FROM):",
        breaks="a broker without sessions gets a Fetch that names only what changed",
        tests=("tests/core/consumer/test_fetch_session.py::test_a_session_does_not_survive_another_kind_of_version",),
    ),
    Mutant(
        file="pykafka4/core/consumer/fetch_session.py",
        old="            self.unnamed -= before.topic_id is None\n",
        new="",
        breaks="a session goes by name for ever",
        tests=("tests/core/consumer/test_fetch_session.py::test_a_session_goes_by_name_only_while_a_topic_of_it_has_no_id",),
    ),
)
