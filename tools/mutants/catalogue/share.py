"""Deliberate bugs in share consumers, on the application's side."""

from __future__ import annotations

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

HAND, SESSION = "pykafka4/share/hand.py", "pykafka4/share/session.py"
TESTS, INTERRUPTIONS = "tests/share/test_share_consumer.py", "tests/share/test_share_interruptions.py"
OF_HAND = "tests/share/test_hand.py"

MUTANTS = (
    Mutant(
        file=HAND,
        old="                if aside:\n",
        new="                if False:\n",
        breaks="offsets without a record are not acknowledged",
        tests=(f"{TESTS}::test_gaps_are_acknowledged_so_that_the_group_goes_on",),
    ),
    Mutant(
        file=HAND,
        old="            reason = _why_ended(record, now)\n",
        new="            reason = None\n",
        breaks="poll returns a record whose lock has ended",
        tests=(f"{TESTS}::test_a_buffered_record_is_not_returned_after_its_lock",),
    ),
    Mutant(
        file=HAND,
        old="                self.ready.appendleft(record)\n",
        new="                pass\n",
        breaks="Ctrl-C at the end of a poll loses records until their locks expire",
        tests=(f"{TESTS}::test_an_interrupted_poll_loses_no_record",),
    ),
    Mutant(
        file=HAND,
        old="        self._set_aside(rest, first, last, AcknowledgeType.REJECT)\n",
        new="        self._set_aside(rest, first, last, AcknowledgeType.RELEASE)\n",
        breaks="a batch that cannot be read comes again and again",
        tests=(f"{TESTS}::test_a_batch_that_cannot_be_read_is_rejected_and_told_once",),
    ),
    Mutant(
        file=SESSION,
        old="        elif unacknowledged := self.hand.unacknowledged():\n",
        new="        elif unacknowledged := []:\n",
        breaks="poll goes on with records that are not acknowledged",
        tests=(f"{TESTS}::test_poll_refuses_to_go_on_with_unacknowledged_records",),
    ),
    Mutant(
        file=SESSION,
        old="            self.guard.leave()\n            self.hand.out = []  # last, and not in a function: Ctrl-C is raised in calls only\n",
        new="            self.hand.out = []\n            self.guard.leave()\n",
        breaks="Ctrl-C as a poll of a share consumer returns has records accepted that the application never had",
        tests=(f"{INTERRUPTIONS}::test_ctrl_c_at_any_place_of_a_poll_takes_no_record_from_the_application",),
    ),
    Mutant(
        file=SESSION,
        old="        shelf.changing = True\n",
        new="",
        breaks="a signal handler that commits during a poll accepts what the poll has not returned",
        tests=(f"{INTERRUPTIONS}::test_a_signal_handler_cannot_have_accepted_what_a_poll_has_not_returned",),
    ),
    Mutant(
        file=HAND,
        old="            if kind is None and record not in out:\n",
        new="            if kind is None:\n",
        breaks="records that a poll has taken and not returned are accepted",
        tests=(f"{OF_HAND}::test_what_a_poll_has_not_returned_is_not_accepted",),
    ),
    Mutant(
        file=HAND,
        old="        if outgoing.take(APPLICATION):\n",
        new="        if True:\n",
        breaks="Ctrl-C in a commit of a share consumer has acknowledgements sent twice",
        tests=(
            f"{OF_HAND}::test_acknowledgements_that_ctrl_c_has_interrupted_are_sent_once",
            f"{INTERRUPTIONS}::test_a_commit_that_ctrl_c_ends_is_not_sent_again",
        ),
    ),
    Mutant(
        file=HAND,
        old="        outgoing.take(LOOP)  # the loop has it, or will: what is forgotten from here on must not be collected again without it\n",
        new="",
        breaks="Ctrl-C in a commit of a share consumer drops acknowledgements",
        tests=(f"{OF_HAND}::test_ctrl_c_at_any_place_of_sent_forgets_nothing_and_sends_nothing_twice",),
    ),
    Mutant(
        file=HAND,
        old="    if acquired.lease.ended is None and _is_renewing(record) and record.offset not in acquired.again:\n",
        new="    if False:\n",
        breaks="a record whose lock is being renewed counts as lost when the old lock ends",
        tests=(f"{OF_HAND}::test_a_record_whose_renewal_is_under_way_can_be_acknowledged_after_the_end_of_the_old_lock",),
    ),
    Mutant(
        file=HAND,
        old="        ready = deque(record for record in self.ready if record.topic in topics)\n",
        new="        ready = self.ready\n",
        breaks="poll returns records of topics that are no longer subscribed",
        tests=(f"{OF_HAND}::test_records_of_other_topics_are_released_by_a_subscription",),
    ),
    Mutant(
        file=SESSION,
        old="            self._send_if_any(self.hand.collect_aside())\n",
        new="",
        breaks="buffered records of an old subscription stay locked until the next poll",
        tests=(f"{INTERRUPTIONS}::test_another_subscription_releases_what_is_buffered_of_other_topics",),
    ),
    Mutant(
        file=SESSION,
        old="            self._renew()\n",
        new="            pass\n",
        breaks="records that are locked for a slow application come to it again and again until they are archived",
        tests=(f"{INTERRUPTIONS}::test_a_slow_application_gets_the_records_that_are_locked_for_it",),
    ),
    Mutant(
        file=SESSION,
        old="            self._warn()\n",
        new="            pass\n",
        breaks="records that were locked too long are lost without a word",
        tests=(f"{INTERRUPTIONS}::test_records_that_were_locked_too_long_are_told_with_the_way_out",),
    ),
    Mutant(
        file=SESSION,
        old="            self.post(lambda at: self.machine.call_at(at + FLUSH_SECONDS, self._give_said))\n",
        new="",
        breaks="what a poll has accepted is not sent before the next poll",
        tests=(f"{INTERRUPTIONS}::test_what_a_poll_has_accepted_is_sent_although_no_other_poll_comes",),
    ),
    Mutant(
        file=SESSION,
        old="        if not outgoing and not self._said:\n",
        new="        if not outgoing:\n",
        breaks="a commit does not wait for what polls have accepted",
        tests=(f"{INTERRUPTIONS}::test_a_commit_waits_for_what_polls_have_accepted",),
    ),
    Mutant(
        file=SESSION,
        old="            self._give_said()\n            self.machine.leave",
        new="            self.machine.leave",
        breaks="close and unsubscribe drop what polls have accepted",
        tests=(f"{INTERRUPTIONS}::test_what_polls_have_accepted_is_sent_with_what_comes_next",),
    ),
    Mutant(
        file=SESSION,
        old="        self._shelf.changing = True\n",
        new="        pass\n",
        breaks="a signal handler that commits during a commit of a share consumer has acknowledgements sent twice",
        tests=(f"{INTERRUPTIONS}::test_a_signal_handler_that_commits_at_any_place_of_a_call_sends_nothing_twice",),
    ),
    Mutant(
        file=SESSION,
        old="            with self._step:\n                self._begin_poll(limit, iteration)\n",
        new="            self._begin_poll(limit, iteration)\n",
        breaks="a signal handler that commits at the beginning of a poll of a share consumer has acknowledgements sent twice",
        tests=(f"{INTERRUPTIONS}::test_a_signal_handler_that_commits_at_any_place_of_a_call_sends_nothing_twice",),
    ),
    Mutant(
        file=HAND,
        old="{o: kind for o, kind in types.items() if now < each.locked_until(o)}",
        new="{o: kind for o, kind in types.items() if now < each.until}",
        breaks="a subscription does not release records whose locks were renewed",
        tests=(f"{OF_HAND}::test_a_subscription_releases_records_whose_locks_were_renewed",),
    ),
    Mutant(
        file=HAND,
        old="                self._renew_from = min(self._renew_from, acquired.until)\n"
        "                self._last = acquired  # no call from here to `popleft`: Ctrl-C is raised in calls\n",
        new="                self._last = acquired\n                self._renew_from = min(self._renew_from, acquired.until)\n",
        breaks="Ctrl-C while a share consumer decodes loses a response",
        tests=(f"{OF_HAND}::test_ctrl_c_at_any_place_of_decoding_loses_nothing",),
    ),
    Mutant(
        file=HAND,
        old="        aside = {acquired: dict(types) for acquired, types in self._aside.items()}\n        for record in self.ready:\n",
        new="        aside = self._aside\n        for record in self.ready:\n",
        breaks="Ctrl-C in a subscription has records both released and returned",
        tests=(f"{OF_HAND}::test_ctrl_c_at_any_place_of_a_subscription_loses_nothing_and_returns_nothing_that_it_releases",),
    ),
    Mutant(
        file=SESSION,
        old="            self.guard.iterate(system.current_thread(), iteration)\n",
        new="            pass\n",
        breaks="a thread that polls has the record accepted that another one has in a loop over a share consumer",
        tests=(f"{TESTS}::test_the_record_of_a_loop_is_not_accepted_by_another_thread",),
    ),
    Mutant(
        file=SESSION,
        old="        if logs.current().on_loop():  # a destructor",
        new="        if False:  # a destructor",
        breaks="a share consumer that a destructor closes on the client's own thread is not closed",
        tests=(f"{TESTS}::test_a_destructor_on_the_loop_has_another_thread_close_it",),
    ),
)
