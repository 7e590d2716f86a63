"""Bugs of questions about groups and offsets: who is asked, retries, what responses mean."""

from __future__ import annotations

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

TESTS = "tests/core/admin/test_machine.py::"
CALLS = "tests/core/admin/test_calls.py::"

MUTANTS: Final = (
    Mutant(
        file="pykafka4/core/admin/work.py",
        old="        return now - entry.missing_since >= MISSING_SECONDS\n",
        new="        return False\n",
        breaks="a topic that does not exist is asked about until the deadline",
        tests=(TESTS + "test_the_number_of_partitions_is_that_of_the_topic",),
    ),
    Mutant(
        file="pykafka4/core/admin/work.py",
        old="entry.last_error, entry.due = reason, now + entry.backoff.next()",
        new="entry.last_error, entry.due = reason, now + 0.1",
        breaks="questions are repeated without a growing back-off",
        tests=(TESTS + "test_a_coordinator_that_loads_is_asked_again_with_a_growing_back_off",),
    ),
    Mutant(
        file="pykafka4/core/admin/work.py",
        old="again = now + PATIENCE if node == ANY else INFINITY",
        new="again = INFINITY",
        breaks="a silent broker is the only one asked for coordinators",
        tests=(TESTS + "test_another_broker_is_asked_for_coordinators_when_one_is_silent",),
    ),
    Mutant(
        file="pykafka4/core/admin/work.py",
        old="        if row.refresh is self._place.cured_by:\n",
        new="        if False:\n",
        breaks="a coordinator that has moved is asked again and again",
        tests=(TESTS + "test_what_is_known_of_coordinators_is_used_again_until_one_refuses",),
    ),
    Mutant(
        file="pykafka4/core/admin/work.py",
        old="        if now >= self._deadline:\n",
        new="        if False:\n",
        breaks="a question has no deadline",
        tests=(TESTS + "test_at_the_deadline_what_is_known_is_returned",),
    ),
    Mutant(
        file="pykafka4/core/admin/work.py",
        old="        return list(self._entries) if every else [",
        new="        return list(self._entries) if True else [",
        breaks="with old brokers each response makes a poll look at all groups",
        tests=("tests/core/admin/test_work.py::test_a_poll_looks_only_at_keys_with_news",),
    ),
    Mutant(
        file="pykafka4/core/admin/work.py",
        old="        if self._entries[key].is_lost:\n",
        new="        if False:\n",
        breaks="a deletion whose response was lost is reported as failed",
        tests=(CALLS + "test_a_group_that_is_gone_after_a_lost_response_was_deleted",),
    ),
    Mutant(
        file="pykafka4/core/admin/work.py",
        old="        if self._entries[key].is_lost:\n",
        new="        if True:\n",
        breaks="a group that does not exist is reported as deleted",
        tests=(CALLS + "test_a_group_that_is_not_there_after_an_error_is_an_error",),
    ),
    Mutant(
        file="pykafka4/core/admin/work.py",
        old="        self._entries[key].is_undecided |= row.name in UNDECIDED\n",
        new="",
        breaks="offsets that may be set are called refused",
        tests=("tests/admin/test_changes.py::test_members_that_join_after_an_answer_was_lost_leave_open_what_was_set[REQUEST_TIMED_OUT]",),
    ),
    Mutant(
        file="pykafka4/core/admin/calls.py",
        old="        elif description is None or offsets is None:\n",
        new="        elif description is None or offsets is None or len(self._descriptions) < len(self._call._expected):\n",
        breaks="a coordinator that is silent hides the lag of all groups",
        tests=(CALLS + "test_lags_of_groups_whose_coordinator_answers_are_found",),
    ),
    Mutant(
        file="pykafka4/core/admin/calls.py",
        old="        self._call.topics.begin(unknown)\n",
        new="        pass\n",
        breaks="the metadata of a topic is asked for again with each coordinator that answers",
        tests=(CALLS + "test_the_metadata_of_a_topic_is_asked_for_once_in_a_call",),
    ),
    Mutant(
        file="pykafka4/core/admin/calls.py",
        old="if group.since > asked]",
        new="if False]",
        breaks="a lag is negative because the end was asked for before the offset was committed",
        tests=(CALLS + "test_an_end_is_asked_for_after_the_offsets_that_it_is_compared_with[True]",),
    ),
    Mutant(
        file="pykafka4/core/admin/machine.py",
        old="        self.turn += 1\n",
        new="",
        breaks="a request in flight for an end is taken for one that will be sent",
        tests=(CALLS + "test_an_end_is_asked_for_after_the_offsets_that_it_is_compared_with[True]",),
    ),
    Mutant(
        file="pykafka4/core/admin/machine.py",
        old="            self.release(place)\n",
        new="            pass\n",
        breaks="topics of a call stay in use after the admin client was closed",
        tests=(CALLS + "test_topics_are_released_with_the_machine[DescribeGroups]",),
    ),
    Mutant(
        file="pykafka4/core/admin/calls.py",
        old="            modern([name])\n",
        new="            last(name, None)\n",
        breaks="groups of the consumer protocol do not exist",
        tests=(CALLS + "test_groups_of_the_other_protocol_are_described_though_a_coordinator_is_silent",),
    ),
    Mutant(
        file="pykafka4/core/admin/places.py",
        old="        return self._coordinators.why(self._group)\n",
        new='        return ""\n',
        breaks="a call that times out does not say why there is no coordinator",
        tests=(TESTS + "test_at_the_deadline_it_is_told_why_a_coordinator_is_not_known",),
    ),
    Mutant(
        file="pykafka4/core/admin/places.py",
        old="            self._errors.pop(key, None)\n",
        new="            pass\n",
        breaks="a group that was denied once is denied for ever",
        tests=(TESTS + "test_one_key_that_cannot_be_answered_does_not_hide_the_others",),
    ),
    Mutant(
        file="pykafka4/core/admin/machine.py",
        old="            self.coordinators.rest()\n            return NOTHING\n",
        new="            return NOTHING\n",
        breaks="coordinators are looked up that nobody waits for",
        tests=(TESTS + "test_a_lookup_that_nobody_waits_for_ends",),
    ),
    Mutant(
        file="pykafka4/core/admin/places.py",
        old="            self._cluster.forget(topic, self)\n",
        new="            pass\n",
        breaks="topics that were asked about stay in use",
        tests=(TESTS + "test_leaders_are_asked_about_their_partitions_and_topics_are_released",),
    ),
    Mutant(
        file="pykafka4/core/admin/groups.py",
        old=" or (not row.error_code and row.group_state == DEAD)",
        new="",
        breaks="a group that does not exist is described as dead by old brokers",
        tests=(TESTS + "test_a_group_that_is_none_of_the_classic_protocol_is_no_error",),
    ),
    Mutant(
        file="pykafka4/core/admin/groups.py",
        old="self.detail or ",
        new="",
        breaks="a group of another type does not exist",
        tests=("tests/admin/test_changes.py::test_a_group_of_another_type_that_has_offsets_is_not_created_again",),
    ),
    Mutant(
        file="pykafka4/core/admin/groups.py",
        old="        except DecodeError:  # made by an assignor of another client\n",
        new="        except KeyError:  # made by an assignor of another client\n",
        breaks="an assignment that cannot be read ends the machine",
        tests=(TESTS + "test_assignments_of_consumers_are_read_and_those_of_others_are_not",),
    ),
    Mutant(
        file="pykafka4/core/admin/offsets.py",
        old="            if row.committed_offset >= 0:\n",
        new="            if True:\n",
        breaks="partitions without a committed offset have offset -1",
        tests=(TESTS + "test_offsets_of_an_open_transaction",),
    ),
    Mutant(
        file="pykafka4/core/admin/offsets.py",
        old="require_stable=self._unstable is not Unstable.IGNORE",
        new="require_stable=False",
        breaks="offsets that a new coordinator does not know to be replicated are missed",
        tests=("tests/admin/test_admin.py::test_a_coordinator_that_moved_is_asked_for_again",),
    ),
    Mutant(
        file="pykafka4/core/admin/calls.py",
        old="            found = Unknown()\n",
        new="            pass\n",
        breaks="with an old broker a group that does not exist is an unsupported version",
        tests=("tests/admin/test_admin.py::test_a_group_that_an_old_broker_does_not_know_does_not_exist",),
    ),
)
