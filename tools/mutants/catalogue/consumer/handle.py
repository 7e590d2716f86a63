"""Bugs of the consumer's handle: its methods, their arguments, and which thread may call."""

from __future__ import annotations

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
    Mutant(
        file="pykafka4/consumer/__init__.py",
        old="weakref.finalize(self, Session.forgotten, session)",
        new="weakref.finalize(self, id, session)",
        breaks="a consumer that was forgotten is not noticed",
        tests=("tests/consumer/test_close.py::test_a_forgotten_consumer_warns_and_leaves",),
    ),
    Mutant(
        file="pykafka4/consumer/__init__.py",
        old='self._session.seek_to(partitions, Start.LATEST, "seek_to_end")',
        new='self._session.seek_to(partitions, Start.EARLIEST, "seek_to_end")',
        breaks="seek_to_end goes to the beginning",
        tests=("tests/consumer/test_positions.py::test_seek_drops_what_was_buffered",),
    ),
    Mutant(
        file="pykafka4/consumer/__init__.py",
        old="self._session.close(failed=error is not None)",
        new="self._session.close(failed=False)",
        breaks="a block left by an exception finishes its list",
        tests=("tests/consumer/test_commits.py::test_close_finishes_the_list_in_hand_and_not_the_record_that_a_loop_holds",),
    ),
    Mutant(
        file="pykafka4/consumer/__init__.py",
        old='self._session.seek_to(partitions, Start.EARLIEST, "seek_to_beginning")',
        new='self._session.seek_to(partitions, Start.LATEST, "seek_to_beginning")',
        breaks="seek_to_beginning goes to the end",
        tests=("tests/consumer/test_positions.py::test_seek_drops_what_was_buffered",),
    ),
    Mutant(
        file="pykafka4/consumer/__init__.py",
        old="            return self._session.commits.committed((partitions,), limit)[topic_partition(partitions)]\n",
        new="            return self._session.commits.committed((partitions,), limit)\n",
        breaks="committed of one partition gives a dict",
        tests=("tests/consumer/test_commits.py::test_commit_covers_everything_handed_out_by_polls_that_returned",),
    ),
    Mutant(
        file="pykafka4/consumer/__init__.py",
        old='raise AttributeError(hint("Consumer", name, CONSUMER_METHODS, dir(type(self))))',
        new="raise AttributeError(name)",
        breaks="a method of another client's consumer gets no hint",
        tests=("tests/consumer/test_misuse.py::test_misuse_is_answered_with_the_right_way",),
    ),
    Mutant(
        file="pykafka4/consumer/__init__.py",
        old="return set(self._session.reader.paused)",
        new="return set()",
        breaks="paused says that nothing is",
        tests=("tests/consumer/test_positions.py::test_paused_partitions_hand_out_nothing_until_resumed",),
    ),
    Mutant(
        file="pykafka4/consumer/__init__.py",
        old='return {**self._session.runtime.status(), "consumer": self._session.status()}',
        new="return self._session.runtime.status()",
        breaks="the consumer's status does not tell of the consumer",
        tests=("tests/consumer/test_membership.py::test_a_coordinator_change_is_no_rebalance",),
    ),
    Mutant(
        file="pykafka4/consumer/__init__.py",
        old="        self._session.check()\n        return self",
        new="        return self",
        breaks="a closed consumer can be entered again",
        tests=("tests/consumer/test_misuse.py::test_wrong_arguments_of_commits_assignments_and_sharing_are_named",),
    ),
    Mutant(
        file="pykafka4/consumer/__init__.py",
        old="partial(self._session.poll, timeout, max_records)",
        new="partial(self._session.poll, timeout)",
        breaks="batches ignores max_records",
        tests=("tests/consumer/test_misuse.py::test_batches_hands_out_at_most_max_records",),
    ),
    Mutant(
        file="pykafka4/consumer/__init__.py",
        old="Session(client, callback_executor, options)",
        new="Session(client, None, options)",
        breaks="callbacks of a consumer do not run on the executor given",
        tests=("tests/consumer/test_misuse.py::test_callbacks_of_commits_run_on_the_executor_given_to_the_consumer",),
    ),
    Mutant(
        file="pykafka4/consumer/__init__.py",
        old="return API_SECONDS if limit is None else limit",
        new="return 2.0",
        breaks="position and commit ignore their timeout",
        tests=("tests/consumer/test_misuse.py::test_position_gives_up_at_its_timeout",),
    ),
    Mutant(
        file="pykafka4/consumer/arguments.py",
        old="    if isinstance(topics, str | re.Pattern):",
        new="    if isinstance(topics, re.Pattern):",
        breaks="subscribing to a text subscribes to its letters",
        tests=("tests/consumer/test_patterns.py::test_a_pattern_means_the_topics_whose_whole_name_matches",),
    ),
    Mutant(
        file="pykafka4/consumer/arguments.py",
        old='    if not names and not patterns:\n        raise ConfigError("subscribe([]): no topics; call unsubscribe() to leave the group")\n',
        new="",
        breaks="an empty subscription is taken",
        tests=("tests/consumer/test_misuse.py::test_misuse_is_answered_with_the_right_way",),
    ),
    Mutant(
        file="pykafka4/consumer/arguments.py",
        old='    _refuse_duplicates(names, "topic")\n',
        new="",
        breaks="a topic subscribed to twice is taken",
        tests=("tests/consumer/test_misuse.py::test_misuse_is_answered_with_the_right_way",),
    ),
    Mutant(
        file="pykafka4/consumer/arguments.py",
        old='    _refuse_duplicates(tps, "partition")\n',
        new="",
        breaks="a partition assigned twice is taken",
        tests=("tests/consumer/test_misuse.py::test_misuse_is_answered_with_the_right_way",),
    ),
    Mutant(
        file="pykafka4/consumer/arguments.py",
        old="or isinstance(max_records, bool) or max_records < 1",
        new="or isinstance(max_records, bool)",
        breaks="a poll of no records is taken",
        tests=("tests/consumer/test_misuse.py::test_misuse_is_answered_with_the_right_way",),
    ),
    Mutant(
        file="pykafka4/consumer/arguments.py",
        old="if listener is not None and not any(",
        new="if False and not any(",
        breaks="what listens to nothing is taken for a listener",
        tests=("tests/consumer/test_misuse.py::test_misuse_is_answered_with_the_right_way",),
    ),
    Mutant(
        file="pykafka4/consumer/arguments.py",
        old="if on_done is not None and not callable(on_done):",
        new="if False:",
        breaks="what cannot be called is found out after the commit",
        tests=("tests/consumer/test_misuse.py::test_wrong_arguments_of_commits_assignments_and_sharing_are_named",),
    ),
    Mutant(
        file="pykafka4/consumer/arguments.py",
        old="if isinstance(partitions, (str, TopicPartition)) or not",
        new="if isinstance(partitions, str) or not",
        breaks="one partition is taken for a list of them",
        tests=("tests/consumer/test_misuse.py::test_wrong_arguments_of_commits_assignments_and_sharing_are_named",),
    ),
    Mutant(
        file="pykafka4/consumer/arguments.py",
        old="if topic in names or (filter is not None and filter.matches(topic)))",
        new="if topic in names)",
        breaks="partitions of a topic are read by pattern and by assign",
        tests=("tests/consumer/test_patterns.py::test_what_matches_a_pattern_cannot_be_assigned",),
    ),
    Mutant(
        file="pykafka4/consumer/arguments.py",
        old="    if both:",
        new="    if False:",
        breaks="a topic is both subscribed to and assigned from",
        tests=("tests/consumer/test_misuse.py::test_wrong_arguments_of_commits_assignments_and_sharing_are_named",),
    ),
    Mutant(
        file="pykafka4/consumer/guard.py",
        old="        if self._reader.changing and holder is not None",
        new="        if False and holder is not None",
        breaks="a signal handler takes records from under a poll",
        tests=("tests/consumer/test_misuse.py::test_a_call_from_a_handler_during_a_poll_is_refused_and_suggests_wakeup",),
    ),
    Mutant(
        file="pykafka4/consumer/guard.py",
        old="        if holder[0] is not mine[0]:",
        new="        if False:",
        breaks="two threads use one consumer at once",
        tests=("tests/consumer/test_misuse.py::test_a_poll_from_a_second_thread_is_refused_and_both_are_named",),
    ),
    Mutant(
        file="pykafka4/consumer/guard.py",
        old="        if not self._inside(holder[0]):  #",
        new="        if False:  #",
        breaks="after Ctrl-C in a call the consumer can never be used again",
        tests=("tests/consumer/test_interrupts.py::test_a_consumer_works_after_an_interrupted_call",),
    ),
    Mutant(
        file="pykafka4/consumer/__init__.py",
        old="    @guarded\n    def __init__(",
        new="    def __init__(",
        breaks="the error of a consumer keeps its options",
        tests=("tests/secrets/test_secrets.py::test_calls_that_are_wrong",),
    ),
)
