"""Bugs of fetch sessions, and of what a turn of a consumer costs."""

from __future__ import annotations

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
    Mutant(
        file="pykafka4/core/consumer/session.py",
        old="self.epoch = self.epoch + 1 if self.epoch < MAX_INT32 else 1",
        new="self.epoch += 1",
        breaks="the epoch of a session grows beyond what fits",
        tests=("tests/core/consumer/test_session.py::test_epochs_go_on_at_1_after_the_largest",),
    ),
    Mutant(
        file="pykafka4/core/consumer/session.py",
        old="        elif before is not None:\n            del self.asked[tp]\n",
        new="",
        breaks="a partition that a session has forgotten is not named again",
        tests=("tests/core/consumer/test_session.py::test_what_is_not_to_be_read_now_is_forgotten_and_named_again_later",),
    ),
    Mutant(
        file="pykafka4/core/consumer/session.py",
        old="            self.limit -= before.limit\n",
        new="",
        breaks="the bytes kept free for a session grow with every change",
        tests=("tests/core/consumer/test_session.py::test_the_bytes_kept_free_are_those_of_the_partitions_that_are_asked_for",),
    ),
    Mutant(
        file="pykafka4/core/consumer/session.py",
        old="        elif self.is_open or not number:\n",
        new="        elif not number:\n",
        breaks="a session that the broker has replaced goes on",
        tests=("tests/core/consumer/test_session.py::test_a_session_that_the_broker_has_ended_is_begun_anew",),
    ),
    Mutant(
        file="pykafka4/core/consumer/session.py",
        old="if version < SESSIONS_FROM or self.by_id is not (version >= BY_ID_FROM):",
        new="if version < SESSIONS_FROM:",
        breaks="a session goes on by name after it began by id",
        tests=("tests/core/consumer/test_session.py::test_a_session_does_not_survive_another_kind_of_version",),
    ),
    Mutant(
        file="pykafka4/core/consumer/session.py",
        old="if version < SESSIONS_FROM or self.by_id is not (version >= BY_ID_FROM):",
        new="if self.by_id is not (version >= BY_ID_FROM):",
        breaks="a broker without sessions gets a Fetch that names only what changed",
        tests=("tests/core/consumer/test_session.py::test_a_session_does_not_survive_another_kind_of_version",),
    ),
    Mutant(
        file="pykafka4/core/consumer/session.py",
        old="            self.unnamed -= before.topic_id is None\n",
        new="",
        breaks="a session goes by name for ever",
        tests=("tests/core/consumer/test_session.py::test_a_session_goes_by_name_only_while_a_topic_of_it_has_no_id",),
    ),
    Mutant(
        file="pykafka4/core/consumer/source.py",
        old="                forgotten.append(before)\n",
        new="                pass\n",
        breaks="a session goes on with partitions that are not to be read",
        tests=("tests/core/consumer/test_session.py::test_what_is_not_to_be_read_now_is_forgotten_and_named_again_later",),
    ),
    Mutant(
        file="pykafka4/core/consumer/source.py",
        old="(session.by_id and now.topic_id != before.topic_id)",
        new="now.topic_id != before.topic_id",
        breaks="by name, a topic created again is named and forgotten",
        tests=("tests/core/consumer/test_session.py::test_by_name_a_topic_created_again_is_not_forgotten",),
    ),
    Mutant(
        file="pykafka4/core/consumer/source.py",
        old="(session.by_id and now.topic_id != before.topic_id)",
        new="False",
        breaks="a session goes on with a topic that was deleted",
        tests=("tests/core/consumer/test_session.py::test_a_topic_created_again_is_another_partition_by_id",),
    ),
    Mutant(
        file="pykafka4/core/consumer/source.py",
        old="(before is None or now[1:] != before[1:])",
        new="(before is None or now.offset != before.offset)",
        breaks="a broker is not told of another leader epoch or limit",
        tests=("tests/core/consumer/test_session.py::test_all_that_a_broker_was_told_of_a_partition_is_told_again_when_it_changes",),
    ),
    Mutant(
        file="pykafka4/core/consumer/source.py",
        old="            session.end()\n            return isinstance",
        new="            return isinstance",
        breaks="a session goes on after a Fetch without an answer",
        tests=("tests/core/consumer/test_session.py::test_after_a_fetch_without_an_answer_everything_is_named_again",),
    ),
    Mutant(
        file="pykafka4/core/consumer/source.py",
        old="        if not fetch.incremental or response.error_code not in SESSION_ERRORS:\n            return False\n",
        new="        return False\n",
        breaks="a session that its broker has forgotten takes all its partitions offline",
        tests=(
            "tests/core/consumer/test_session.py::test_a_session_that_the_broker_refuses_is_begun_anew_at_once_and_nothing_goes_offline",
        ),
    ),
    Mutant(
        file="pykafka4/core/consumer/source.py",
        old="        if self._refusals >= REFUSALS:\n",
        new="        if False:\n",
        breaks="a broker that refuses each session is asked for another for ever",
        tests=("tests/core/consumer/test_session.py::test_a_broker_that_refuses_each_session_is_asked_without_for_a_while",),
    ),
    Mutant(
        file="pykafka4/core/consumer/source.py",
        old="self._refusals = 0 if fetch.incremental else self._refusals",
        new="pass",
        breaks="refused sessions are counted over days",
        tests=("tests/core/consumer/test_session.py::test_refusals_with_good_rounds_between_them_do_not_count_together",),
    ),
    Mutant(
        file="pykafka4/core/consumer/source.py",
        old="alone is None and not busy and now",
        new="alone is None and now",
        breaks="two Fetches of a session are in flight",
        tests=("tests/core/consumer/test_session.py::test_beside_a_fetch_that_is_held_back_everything_is_asked_for_without_a_session",),
    ),
    Mutant(
        file="pykafka4/core/consumer/source.py",
        old="in_session = alone is None and not busy",
        new="in_session = not busy",
        breaks="a partition asked for by itself is asked for in the session, with all others",
        tests=(
            "tests/core/consumer/test_session.py::test_partitions_whose_answer_was_too_large_are_asked_for_one_by_one_without_a_session",
        ),
    ),
    Mutant(
        file="pykafka4/core/consumer/source.py",
        old="            if position is not None and tp not in session.asked and min(",
        new="            if False and min(",
        breaks="a partition that is paused and resumed is never read while others have a backlog",
        tests=(
            "tests/core/consumer/test_session.py::test_a_partition_that_is_paused_again_and_again_is_read_although_it_always_comes_last_in_the_session",
        ),
    ),
    Mutant(
        file="pykafka4/core/consumer/source.py",
        old=" or asked.topic_id not in (None, asked.position.topic_id):",
        new=":",
        breaks="records of a topic that was deleted are taken for those of its successor",
        tests=("tests/core/consumer/test_session.py::test_a_topic_created_again_is_another_partition_by_id",),
    ),
    Mutant(
        file="pykafka4/core/consumer/source.py",
        old="                self._news[tp] = None\n                if tp in self.full",
        new="                if tp in self.full",
        breaks="a session goes on with partitions that have no room",
        tests=("tests/core/consumer/test_session.py::test_what_has_no_room_is_forgotten_until_it_was_read",),
    ),
    Mutant(
        file="pykafka4/core/consumer/fetch_answers.py",
        old="        if not fetch.incremental:\n            self._positions",
        new="        if True:\n            self._positions",
        breaks="each round of a session moves a partition to the end that was not served",
        tests=("tests/core/consumer/test_session.py::test_a_fetch_that_names_all_does_so_in_the_order_in_which_partitions_were_served",),
    ),
    Mutant(
        file="pykafka4/core/consumer/sources.py",
        old="        if source.idle and source.node not in self._cluster.brokers:\n            self._by_node.pop(source.node, None)\n",
        new="        pass\n",
        breaks="brokers that are gone are kept for ever",
        tests=("tests/core/consumer/test_session.py::test_a_broker_that_is_gone_is_forgotten",),
    ),
    Mutant(
        file="pykafka4/core/consumer/fetcher.py",
        old="            positions.touched.update(of_topic)\n",
        new="",
        breaks="a change of leader is not noticed",
        tests=("tests/core/consumer/test_fetcher.py::test_a_change_of_a_topic_costs_that_topic",),
    ),
    Mutant(
        file="pykafka4/core/consumer/fetcher.py",
        old="            positions.touch(tp)\n            self.searches",
        new="            self.searches",
        breaks="a partition that came back online is not read on",
        tests=("tests/core/consumer/test_fetcher.py::test_a_partition_that_comes_back_and_one_that_is_paused_cost_one_partition_each",),
    ),
    Mutant(
        file="pykafka4/core/consumer/fetcher.py",
        old="            positions.touched.update(of_topic)\n",
        new="            positions.touched.update(positions)\n",
        breaks="a change of one topic looks at all partitions",
        tests=("tests/core/consumer/test_fetcher.py::test_a_change_of_a_topic_costs_that_topic",),
    ),
    Mutant(
        file="pykafka4/core/consumer/fetcher.py",
        old="        self._new.append(position)\n",
        new="",
        breaks="what was known of a topic before its partition was assigned is not looked at",
        tests=("tests/core/consumer/test_fetcher.py::test_what_is_known_of_a_topic_counts_when_its_partition_is_placed",),
    ),
    Mutant(
        file="pykafka4/core/consumer/fetcher.py",
        old="        self._changes.end()\n",
        new="",
        breaks="a closed consumer goes on collecting changes",
        tests=("tests/core/consumer/test_fetcher.py::test_a_consumer_that_is_gone_hears_of_no_changes",),
    ),
    Mutant(
        file="pykafka4/core/consumer/searches.py",
        old="        self.tidy(search.tp)\n        self._pending",
        new="        self._pending",
        breaks="searches of each seek pile up while a partition has no leader",
        tests=("tests/core/consumer/test_fetcher.py::test_searches_that_nobody_waits_for_any_more_are_forgotten",),
    ),
    Mutant(
        file="pykafka4/core/consumer/source.py",
        old="            self.session = FetchSession(self.session.number)\n            self._news.clear()\n",
        new="            pass\n",
        breaks="what was read from a broker is remembered when nothing is read there any more",
        tests=("tests/core/consumer/test_session.py::test_nothing_is_kept_of_partitions_that_are_not_read_any_more",),
    ),
)
