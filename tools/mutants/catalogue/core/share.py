"""Deliberate bugs in the machine of share consumers."""

from __future__ import annotations

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

SOURCE, MEMBER = "pykafka4/core/share/source.py", "pykafka4/core/share/member.py"
MACHINE = "pykafka4/core/share/machine.py"
SHELF, VALUES = "pykafka4/core/share/shelf.py", "pykafka4/core/share/values.py"
TESTS, INTERRUPTIONS = "tests/share/test_share_consumer.py", "tests/share/test_share_interruptions.py"
OF_SOURCE, OF_MEMBER = "tests/core/share/test_source.py", "tests/core/share/test_member.py"

MUTANTS = (
    Mutant(
        file=SOURCE,
        old="        for lease in leases.values():\n            lease.ended = reason\n",
        new="",
        breaks="records of a session that has ended still count as locked",
        tests=(f"{TESTS}::test_a_lost_session_ends_the_locks_and_the_records_come_again",),
    ),
    Mutant(
        file=SOURCE,
        old="            self.queue.append(each)  # still locked: the broker could not store it now\n            self._hold(now, lease.tp, error)\n            return\n",
        new="            pass\n",
        breaks="an acknowledgement that the broker cannot store now fails",
        tests=(f"{TESTS}::test_a_broker_that_cannot_store_it_now_is_asked_again",),
    ),
    Mutant(
        file=MEMBER,
        old="        self._in_flight = None  # an answer after `_leave_by` changes nothing\n",
        new="",
        breaks="a late answer to a leave ends the share consumer",
        tests=(f"{OF_MEMBER}::test_a_late_answer_to_a_leave_changes_nothing",),
    ),
    Mutant(
        file=MEMBER,
        old="        self._left, self._leave_by = done, by\n",
        new="        self.topics, self._polled, self._left, self._leave_by = (), False, done, by\n",
        breaks="a share consumer that subscribes while it leaves never joins again",
        tests=(
            f"{OF_MEMBER}::test_a_member_that_subscribes_and_polls_while_it_leaves_joins_again",
            f"{INTERRUPTIONS}::test_ctrl_c_in_unsubscribe_does_not_keep_the_consumer_from_joining_again",
        ),
    ),
    Mutant(
        file=SOURCE,
        old="        self.queue += later\n",
        new="        self.queue[:0] = later\n",
        breaks="a renewal that is sent again replaces a later acceptance",
        tests=(f"{OF_SOURCE}::test_what_is_sent_again_does_not_replace_what_was_said_later",),
    ),
    Mutant(
        file=SOURCE,
        old="            self.queue = [*self._without_renewals(sent, lambda _: outcome.reason), *self.queue]\n",
        new="            for each in sent:\n                each.fail(outcome.reason)\n",
        breaks="a renewal that a broker does not know loses the other acknowledgements of the request",
        tests=(f"{OF_SOURCE}::test_brokers_that_cannot_renew_get_the_other_acknowledgements",),
    ),
    Mutant(
        file=VALUES,
        old="                    before.again.add(offset)\n",
        new="                    pass\n",
        breaks="an acknowledgement of one delivery is applied to the next one",
        tests=(
            f"{OF_SOURCE}::test_an_acknowledgement_of_an_earlier_delivery_is_not_sent",
            "tests/share/test_hand.py::test_a_record_that_was_acquired_again_cannot_be_acknowledged_any_more",
        ),
    ),
    Mutant(
        file=VALUES,
        old="            self._current = {o: each for o, each in self._current.items() if now < each.locked_until(o) + REMEMBERED}\n",
        new="            pass\n",
        breaks="a lease remembers all records that were never acknowledged",
        tests=(f"{OF_SOURCE}::test_a_lease_does_not_remember_what_has_an_outcome_or_is_long_over",),
    ),
    Mutant(
        file=SOURCE,
        old="        self.wanted = NOBODY  # polls that asked meanwhile have this answer\n",
        new="",
        breaks="a share consumer asks again for polls that have had an answer",
        tests=(f"{OF_SOURCE}::test_a_response_answers_all_polls_so_far",),
    ),
    Mutant(
        file=SHELF,
        old="(self.waiting or taken == self.taken)",
        new="(self.waiting or taken >= 0)",
        breaks="records are locked although the poll that asked for them has others",
        tests=(f"{OF_SOURCE}::test_a_poll_that_has_records_lets_no_broker_lock_more",),
    ),
    Mutant(
        file=SOURCE,
        old="        most = min(context.shelf.limit, self._config.max_poll_records)\n",
        new="        most = self._config.max_poll_records\n",
        breaks="brokers are asked for more records than a poll of a share consumer may return",
        tests=(f"{OF_SOURCE}::test_a_broker_is_asked_for_what_the_poll_may_return",),
    ),
    Mutant(
        file=SOURCE,
        old="                tp = self._names.get((topic.topic_id, part.partition_index))\n",
        new="                name = self._context.cluster.topic_name(topic.topic_id)\n"
        "                tp = None if name is None else TopicPartition(name, part.partition_index)\n",
        breaks="records that arrive for an old subscription stay locked",
        tests=(f"{OF_SOURCE}::test_records_of_a_topic_that_is_no_longer_subscribed_are_released",),
    ),
    Mutant(
        file=MACHINE,
        old="            self._call()\n        self._call_at, self._call = at, fn\n",
        new="            pass\n        self._call_at, self._call = at, fn\n",
        breaks="fast polls put off what earlier ones have accepted",
        tests=(f"{INTERRUPTIONS}::test_fast_polls_do_not_put_off_what_earlier_ones_have_accepted",),
    ),
    Mutant(
        file=SOURCE,
        old="        self._hold(now, tp, error)\n",
        new="        self._rest_until = now + self._backoff.next()\n",
        breaks="a partition that cannot be fetched slows down the others",
        tests=(f"{OF_SOURCE}::test_a_partition_that_cannot_be_fetched_does_not_slow_down_the_others",),
    ),
    Mutant(
        file=SOURCE,
        old="            self._hold(now, lease.tp, error)\n",
        new="            self._rest_until = now + self._backoff.next()\n",
        breaks="acknowledgements that one partition cannot store hold up the others",
        tests=(f"{OF_SOURCE}::test_acknowledgements_that_one_partition_cannot_store_do_not_hold_up_the_others",),
    ),
    Mutant(
        file=SOURCE,
        old="                hold.tried = tp in tried\n",
        new="                hold.tried = True\n",
        breaks="the pauses of a partition that cannot be fetched do not grow",
        tests=(f"{OF_SOURCE}::test_a_partition_that_cannot_be_fetched_does_not_slow_down_the_others",),
    ),
    Mutant(
        file=SOURCE,
        old="            return min(held.values(), default=INFINITY)\n",
        new="            return INFINITY\n",
        breaks="partitions that all fail are not asked again",
        tests=(f"{OF_SOURCE}::test_partitions_that_all_fail_are_asked_again_after_a_pause",),
    ),
    Mutant(
        file=SOURCE,
        old="        self._sent = self._locked_outside(now)\n",
        new="        self._sent = []\n",
        breaks="a share consumer that is closed leaves records of partitions that it left locked",
        tests=(
            f"{OF_SOURCE}::test_the_end_of_a_session_releases_what_a_partition_on_hold_has_locked",
            f"{TESTS}::test_close_releases_what_is_locked_of_a_topic_that_is_no_longer_subscribed",
        ),
    ),
    Mutant(
        file=SOURCE,
        old="if (acquired, offset) not in said]",
        new="]",
        breaks="the end of a share session releases records that were accepted",
        tests=(f"{OF_SOURCE}::test_the_end_of_a_session_releases_what_a_partition_on_hold_has_locked",),
    ),
    Mutant(
        file=SOURCE,
        old="        self._hold(now, tp, error)  # and out",
        new="        self._in_session.pop(tp, None)  # and out",
        breaks="a partition that another broker leads stays in the share session, and each ShareFetch is answered at once",
        tests=(f"{OF_SOURCE}::test_a_partition_that_another_broker_leads_leaves_the_session",),
    ),
    Mutant(
        file=SOURCE,
        old="        if renews and isinstance(",
        new="        if isinstance(",
        breaks="an acknowledgement to a broker that has no share groups any more is sent again and again, without a pause",
        tests=(f"{OF_SOURCE}::test_a_broker_that_has_no_share_groups_any_more_is_told_and_not_asked_for_ever",),
    ),
    Mutant(
        file=SOURCE,
        old="        self._fail_lost()  # also while a broker that does not respond holds up the others\n        if self.in_flight:\n            return INFINITY\n",
        new="        if self.in_flight:\n            return INFINITY\n        self._fail_lost()\n",
        breaks="commit waits for a broker that does not respond to say what is lost already",
        tests=(f"{OF_SOURCE}::test_what_is_lost_is_told_while_the_broker_does_not_respond",),
    ),
    Mutant(
        file=SOURCE,
        old="        self._left += [found for lease in self.leases.values() for found in lease.locked(now).items()]\n",
        new="",
        breaks="what a share session that is over has left locked stays so until its time is over",
        tests=(
            f"{OF_SOURCE}::test_what_a_session_has_left_locked_is_released_in_the_next_one",
            f"{OF_SOURCE}::test_what_is_locked_of_former_partitions_is_released_after_a_lost_connection",
        ),
    ),
    Mutant(
        file=SOURCE,
        old=" and (lease is None or not lease.has(offset))]",
        new="]",
        breaks="a record that was delivered again is released, as if it were still locked by the session before",
        tests=(f"{OF_SOURCE}::test_what_a_session_has_left_locked_is_released_in_the_next_one",),
    ),
    Mutant(
        file=SOURCE,
        old="        if not over:  # first: what may be stored is not released\n",
        new="        if False:\n",
        breaks="a record is released although its acknowledgement may be stored, so the broker refuses to release the others",
        tests=(f"{OF_SOURCE}::test_what_may_be_stored_and_what_is_over_is_not_released",),
    ),
    Mutant(
        file=SOURCE,
        old="        if self._left and self._release_left(now, ()):\n            return\n",
        new="",
        breaks="a share consumer that is closed leaves what earlier sessions had locked",
        tests=(f"{OF_SOURCE}::test_close_releases_what_earlier_sessions_have_left_locked",),
    ),
    Mutant(
        file=SOURCE,
        old=" for tp, hold in self._holds.items() if tp in self.targets}",
        new=" for tp, hold in ()}",
        breaks="polls of a share consumer return nothing, and status does not say that a broker refuses a partition",
        tests=(f"{OF_SOURCE}::test_the_status_says_what_keeps_records_from_coming",),
    ),
    Mutant(
        file=SOURCE,
        old="self._epoch, self._left_released)",
        new="self._epoch, self._acknowledged)",
        breaks="a broker that does not know what a lost session had locked takes the partition offline",
        tests=(f"{OF_SOURCE}::test_what_a_session_has_left_locked_is_released_in_the_next_one",),
    ),
    Mutant(
        file=MEMBER,
        old="                self._coordinator.want()\n            else:\n                self._beat(now, node, LEAVES",
        new="                self._gone()\n            else:\n                self._beat(now, node, LEAVES",
        breaks="a share consumer that is closed while its coordinator moves stays in the group until the session time-out",
        tests=(f"{OF_MEMBER}::test_a_member_whose_coordinator_is_not_known_looks_it_up_to_leave",),
    ),
    Mutant(
        file=MEMBER,
        old="        if self.state is S.LEAVING:  # then it cannot tell the coordinator\n",
        new="        if False:\n",
        breaks="close waits ten seconds longer than its timeout for a share consumer that is refused while it leaves",
        tests=(f"{OF_MEMBER}::test_a_member_that_is_refused_while_it_leaves_has_left",),
    ),
)
