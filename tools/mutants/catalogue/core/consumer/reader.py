"""Bugs of what `poll` takes, of positions, and of lookups of offsets."""

from __future__ import annotations

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
    Mutant(
        file="pykafka4/core/consumer/reader.py",
        old="                if before.origin is claim.origin:\n                    continue\n",
        new="                if before is claim:\n                    continue\n",
        breaks="a partition is never read again if a signal handler seeks while it is assigned",
        tests=("tests/consumer/test_interrupts.py::test_a_partition_is_read_although_a_signal_handler_seeks_while_it_is_assigned",),
    ),
    Mutant(
        file="pykafka4/core/consumer/machine.py",
        old="in self._reader.progress().items()",
        new="in self._reader.finished.copy().items()",
        breaks="auto-commit stands still during a long list",
        tests=("tests/core/consumer/test_machine.py::test_a_slow_loop_is_not_evicted_and_its_records_are_committed_while_it_runs",),
    ),
    Mutant(
        file="pykafka4/core/consumer/machine.py",
        old="        return error is None or error.code not in MISSING\n",
        new="        return True\n",
        breaks="a commit of a deleted topic is tried again and again",
        tests=("tests/core/group/test_offsets.py::test_a_commit_of_a_topic_that_the_metadata_says_is_gone_is_refused_at_once",),
    ),
    Mutant(
        file="pykafka4/core/consumer/reader.py",
        old="self._replace([(claim, claim.successor(offset, epoch), offset)])",
        new="self._replace([(claim, claim.successor(offset), offset)])",
        breaks="the epoch is forgotten when a truncated log is read on",
        tests=("tests/core/consumer/test_fetch_answers.py::test_a_second_truncation_is_noticed_before_anything_was_read_after_the_first",),
    ),
    Mutant(
        file="pykafka4/core/consumer/reader.py",
        old="            epoch = min(claim.epoch, epoch)",
        new="            epoch = claim.epoch",
        breaks="a partition asks the same question for ever after two unclean elections",
        tests=("tests/core/consumer/reader/test_reader_markers.py::test_a_truncation_behind_the_position_is_checked_with_the_older_epoch",),
    ),
    Mutant(
        file="pykafka4/core/consumer/reader.py",
        old="            self._buffer.let_go(claim, item.size)\n",
        new="            pass\n",
        breaks="room for what comes after a claim has ended is never given back",
        tests=("tests/core/consumer/reader/test_reader.py::test_records_arriving_after_their_claim_ended_take_no_room",),
    ),
    Mutant(
        file="pykafka4/core/consumer/reader.py",
        old="        self.purge([old for old, _, _ in current])\n        self._replacement = []",
        new="        self._replacement = []",
        breaks="a seek leaves what was buffered",
        tests=("tests/core/consumer/reader/test_reader_seeks.py::test_seek_drops_what_is_buffered_and_what_arrives_late",),
    ),
    Mutant(
        file="pykafka4/core/consumer/reader.py",
        old="            self.finished.pop(claim.tp, None)\n            self.paused",
        new="            self.paused",
        breaks="positions of given back partitions are committed",
        tests=("tests/core/consumer/reader/test_reader_seeks.py::test_a_revoked_partition_leaves_nothing_behind",),
    ),
    Mutant(
        file="pykafka4/core/consumer/reader.py",
        old="            if isinstance(start, int):\n                self.finished[tp] = (start, -1)\n            else:",
        new="            if not isinstance(start, int):",
        breaks="a seek is not committed",
        tests=("tests/core/consumer/reader/test_reader_seeks.py::test_records_before_a_seek_count_as_finished",),
    ),
    Mutant(
        file="pykafka4/core/consumer/reader.py",
        old="        self._complete_replacement()  # an interrupted seek: it replaces claims\n",
        new="",
        breaks="the seek after an interrupted one is lost, and its offset is committed",
        tests=("tests/core/consumer/reader/test_reader_seeks.py::test_a_seek_counts_although_the_one_before_was_interrupted",),
    ),
    Mutant(
        file="pykafka4/core/consumer/reader.py",
        old="        self._replace([(claim := self.claims[tp], claim.successor(start), start) for tp, start in starts.items()])\n",
        new="        self.finished.update((tp, (start, -1)) for tp, start in starts.items() if isinstance(start, int))\n"
        "        self._replace([(claim := self.claims[tp], claim.successor(start), start) for tp, start in starts.items()])\n",
        breaks="an interrupted seek marks as finished what was not read",
        tests=("tests/core/consumer/reader/test_reader_seeks.py::test_an_interrupted_seek_of_several_partitions_marks_none_as_finished",),
    ),
    Mutant(
        file="pykafka4/core/consumer/reader.py",
        old="return self._places(self._held)",
        new="return self._places(0)",
        breaks="commit() in a loop commits the record in hand",
        tests=("tests/core/consumer/reader/test_reader_loops.py::test_in_a_loop_everything_before_the_record_in_hand_is_reached",),
    ),
    Mutant(
        file="pykafka4/core/consumer/reader.py",
        old="        return max(idle, self._seen_at)\n",
        new="        return idle\n",
        breaks="a slow loop is evicted while it asks for records",
        tests=("tests/core/consumer/reader/test_reader_loops.py::test_each_record_taken_in_a_loop_counts_as_a_poll",),
    ),
    Mutant(
        file="pykafka4/core/consumer/reader.py",
        old="            iterator.stopped = True\n\n    def news",
        new="            pass\n\n    def news",
        breaks="a rebalance waits until a loop is through with its list",
        tests=("tests/core/consumer/reader/test_reader_loops.py::test_an_event_ends_a_loops_list_before_its_next_record",),
    ),
    Mutant(
        file="pykafka4/core/consumer/reader.py",
        old="            if records_before:\n                return False\n            self.finished[claim.tp] = (located.offset, located.epoch)\n",
        new="            pass\n",
        breaks="the offset reached before a reset to a lower one is committed after it",
        tests=(
            "tests/core/consumer/reader/test_reader_markers.py::test_progress_made_before_a_reset_to_a_lower_offset_is_not_committed_after_it",
        ),
    ),
    Mutant(
        file="pykafka4/core/consumer/reader.py",
        old="            self.finished[claim.tp] = (located.offset, located.epoch)\n",
        new="            pass\n",
        breaks="a loop makes no progress behind a reset to a lower offset",
        tests=(
            "tests/core/consumer/reader/test_reader_markers.py::test_a_loop_over_records_behind_a_reset_to_a_lower_offset_makes_progress",
        ),
    ),
    Mutant(
        file="pykafka4/core/consumer/reader.py",
        old="if now is not None and now.origin is claim.origin]",
        new="if now is not None]",
        breaks="the end of one assignment releases partitions of another",
        tests=(
            "tests/core/consumer/reader/test_reader_seeks.py::test_what_is_buffered_of_an_assignment_goes_when_another_takes_its_place",
        ),
    ),
    Mutant(
        file="pykafka4/core/consumer/reader.py",
        old="claim.successor(start), start) for tp",
        new="Claim(tp), start) for tp",
        breaks="partitions that were sought are kept after their assignment has ended",
        tests=("tests/core/consumer/test_fetcher.py::test_the_end_of_an_assignment_ends_what_a_seek_put_in_its_place",),
    ),
    Mutant(
        file="pykafka4/core/consumer/reader.py",
        old="                self._handed = {claim: place for claim, place in self._handed.items() if places.get(claim.tp, place) != place}\n",
        new="",
        breaks="each poll behind a loop that was left looks at all partitions of its list again",
        tests=(
            "tests/core/consumer/reader/test_reader_scale.py"
            "::test_a_poll_that_goes_on_with_the_list_of_a_loop_does_not_look_at_partitions_that_are_through",
        ),
    ),
    Mutant(
        file="pykafka4/core/consumer/reader.py",
        old="        self._reseek(current)\n",
        new="        for move in current:\n            self._reseek([move])\n",
        breaks="a seek of all partitions wakes the loop for each of them",
        tests=("tests/core/consumer/reader/test_reader_scale.py::test_a_seek_of_many_partitions_is_one_call_to_the_loop",),
    ),
    Mutant(
        file="pykafka4/core/consumer/reader.py",
        old="            self._step_back(_first_left(self._iterator, listed))\n",
        new="            pass\n",
        breaks="a loop goes on with records of partitions paused together",
        tests=("tests/core/consumer/reader/test_reader_seeks.py::test_pausing_several_partitions_takes_all_of_them_out_of_a_loops_list",),
    ),
    Mutant(
        file="pykafka4/core/consumer/reader.py",
        old="except (CorruptRecord, RecordTooLarge, ConfigError):",
        new="except (CorruptRecord, RecordTooLarge):",
        breaks="a batch whose codec's library is missing is reported before the records that lie before it",
        tests=("tests/consumer/test_unreadable.py::test_a_batch_whose_codec_is_not_installed_names_its_partition_until_it_is",),
    ),
    Mutant(
        file="pykafka4/core/consumer/fetch_buffer.py",
        old="            self._queue.pop(item, None)\n        self._queue.move_to_end(first)\n",
        new="            self._queue.pop(item, None)\n",
        breaks="a damaged batch holds back the records of other partitions",
        tests=(
            "tests/core/consumer/reader/test_reader_markers.py::test_an_error_of_one_partition_keeps_no_other_partition_waiting[damaged batch]",
        ),
    ),
    Mutant(
        file="pykafka4/core/consumer/reader.py",
        old="        elif trouble.claim is not None:\n            self._buffer.put_last(trouble.claim)\n",
        new="",
        breaks="a partition that has stopped holds back the records of others",
        tests=(
            "tests/core/consumer/reader/test_reader_markers.py::test_an_error_of_one_partition_keeps_no_other_partition_waiting[lasting error]",
        ),
    ),
    Mutant(
        file="pykafka4/core/consumer/reader.py",
        old="            self._buffer.put_last(claim)\n            raise LogTruncated",
        new="            raise LogTruncated",
        breaks="a partition whose log was truncated holds back the records of others",
        tests=(
            "tests/core/consumer/reader/test_reader_markers.py::test_an_error_of_one_partition_keeps_no_other_partition_waiting[truncation]",
        ),
    ),
    Mutant(
        file="pykafka4/core/consumer/fetch_buffer.py",
        old="        for item in reversed(others):\n            self._queue.pop(item, None)\n        self._queue.move_to_end(first)\n        for item in others:\n            self._queue[item] = None\n",
        new="        self._queue.move_to_end(first)\n",
        breaks="records behind a damaged batch come before it",
        tests=(
            "tests/core/consumer/reader/test_reader_markers.py::test_an_error_of_one_partition_keeps_no_other_partition_waiting[damaged batch]",
        ),
    ),
    Mutant(
        file="pykafka4/core/consumer/fetch_buffer.py",
        old="        self.consumed += size\n        if last:",
        new="        if last:",
        breaks="room for prefetching never comes free",
        tests=("tests/core/consumer/reader/test_reader.py::test_a_chunks_bytes_are_released_once_it_was_read",),
    ),
    Mutant(
        file="pykafka4/core/consumer/fetch_buffer.py",
        old="            size = 0\n            for item in reversed(items):\n",
        new="            size = 0\n            for item in [i for i in self._queue if getattr(i, 'serial', None) is claim]:\n",
        breaks="a seek looks at everything that is buffered",
        tests=("tests/core/consumer/reader/test_reader_scale.py::test_what_is_done_to_one_partition_does_not_look_at_the_others[seek]",),
    ),
    Mutant(
        file="pykafka4/core/consumer/fetch_buffer.py",
        old="            for item in reversed(self._items.get(claim, ())):\n                self._keep_aside",
        new="            for item in [i for i in reversed(self._queue) if getattr(i, 'serial', None) is claim]:\n                self._keep_aside",
        breaks="a pause looks at everything that is buffered",
        tests=("tests/core/consumer/reader/test_reader_scale.py::test_what_is_done_to_one_partition_does_not_look_at_the_others[pause]",),
    ),
    Mutant(
        file="pykafka4/core/consumer/fetch_buffer.py",
        old="            for item in reversed(self._items.get(claim, ())):\n                self._keep_aside",
        new="            for item in self._items.get(claim, ()):\n                self._keep_aside",
        breaks="Ctrl-C in a pause has a later chunk handed out before an earlier one",
        tests=("tests/consumer/test_interrupts.py::test_an_interrupted_reader_hands_out_every_record_once_and_in_order[pause-nothing]",),
    ),
    Mutant(
        file="pykafka4/core/consumer/fetch_buffer.py",
        old="        items = self._items.get(claim)\n        return items[0] if items else None\n",
        new="        every = (item for items in self._items.values() for item in items)\n"
        "        return next((i for i in every if (i.serial if i.__class__ is Chunk else i.claim) is claim), None)\n",
        breaks="the position of a partition is looked for in everything that is buffered",
        tests=(
            "tests/core/consumer/reader/test_reader_scale.py::test_what_is_done_to_one_partition_does_not_look_at_the_others[next offset]",
        ),
    ),
    Mutant(
        file="pykafka4/core/consumer/positions.py",
        old="        position.offset = chunk.next_offset\n",
        new="        position.offset = chunk.next_offset - 1\n",
        breaks="the last record of each answer is fetched twice",
        tests=("tests/core/consumer/test_fetcher.py::test_the_next_request_leaves_as_soon_as_the_answer_is_in",),
    ),
    Mutant(
        file="pykafka4/core/consumer/positions.py",
        old="            position.turn = before.turn\n",
        new="            position.turn = self._next_turn()\n",
        breaks="a seek puts a partition behind all others",
        tests=("tests/core/consumer/test_fetcher_room.py::test_partitions_with_a_backlog_are_read_in_turn_whatever_the_application_does",),
    ),
    Mutant(
        file="pykafka4/core/consumer/searches.py",
        old="self._send(Request(self._address(node), message,",
        new="self._send(Request(node, message,",
        breaks="a search waits behind a Produce that a broker holds back",
        tests=("tests/core/consumer/test_searches.py::test_each_leader_is_asked_once_for_all_its_partitions_over_a_lane_for_fetches",),
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
        old="current_leader_epoch=search.leader_epoch,",
        new="current_leader_epoch=-1,",
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
        tests=("tests/core/consumer/test_searches.py::test_an_abandoned_search_is_neither_requested_nor_answered",),
    ),
    Mutant(
        file="pykafka4/core/consumer/searches.py",
        old="            self.tidy(tp)\n        self._pending",
        new="            pass\n        self._pending",
        breaks="searches of each seek pile up while a partition has no leader",
        tests=("tests/core/consumer/test_fetcher.py::test_abandoned_offset_searches_are_removed",),
    ),
    Mutant(
        file="pykafka4/core/consumer/machine.py",
        old="            if tp not in ending and self",
        new="            if self",
        breaks="partitions that have to be released are auto-committed",
        tests=("tests/core/group/test_offsets.py::test_auto_commit_leaves_out_what_the_application_has_to_release",),
    ),
    Mutant(
        file="pykafka4/core/consumer/machine.py",
        old="if self._auto_under_way or (self.membership.topics and self.membership.protocol.credentials is None):",
        new="if self._auto_under_way:",
        breaks="a subscribed consumer auto-commits before it is a member",
        tests=("tests/core/group/test_offsets.py::test_auto_commit_of_a_subscribed_consumer_waits_until_it_is_a_member",),
    ),
    Mutant(
        file="pykafka4/core/consumer/machine.py",
        old="self.offsets.commit(Commit(offsets, credentials,",
        new="self.offsets.commit(Commit(offsets, credentials and type(credentials)('g', credentials.generation, 'm'),",
        breaks="a commit that waited is sent with the generation at which it was made",
        tests=("tests/core/group/test_incremental.py::test_commits_of_revoked_and_of_kept_partitions_are_sent_with_the_present_epoch",),
    ),
    Mutant(
        file="pykafka4/core/consumer/machine.py",
        old="self.membership.losses()\n            lost",
        new="dict[TopicPartition, str]()\n            lost",
        breaks="a commit of partitions that were lost before is sent",
        tests=("tests/core/group/test_incremental.py::test_a_loss_of_some_partitions_fails_their_commits_and_no_others",),
    ),
    Mutant(
        file="pykafka4/core/consumer/reader.py",
        old="        if _subject(error) not in map(_subject, (*waiting, *tuple(self.notices))):\n            self.put",
        new="        if True:\n            self.put",
        breaks="denials that nobody polls for pile up",
        tests=("tests/core/consumer/reader/test_reader_markers.py::test_different_rights_are_raised_one_after_the_other",),
    ),
    Mutant(
        file="pykafka4/core/consumer/reader.py",
        old="        if now < self._denied.get(error.subject, -INFINITY):\n            return True\n",
        new="",
        breaks="every partition of a denied topic costs a poll",
        tests=(
            "tests/core/consumer/reader/test_reader_markers.py::test_a_missing_right_is_raised_once_a_second_for_all_partitions_of_a_topic",
        ),
    ),
    Mutant(
        file="pykafka4/core/consumer/reader.py",
        old="        self._denied[error.subject] = now + DENIED_AGAIN\n",
        new="        self._denied[error.subject] = INFINITY\n",
        breaks="a missing right is raised once and never again",
        tests=(
            "tests/core/consumer/reader/test_reader_markers.py::test_a_missing_right_is_raised_once_a_second_for_all_partitions_of_a_topic",
        ),
    ),
    Mutant(
        file="pykafka4/core/consumer/reader.py",
        old="            if known:\n                return True\n",
        new="            if known:\n                return False\n",
        breaks="a poll returns nothing because it would have raised the same again",
        tests=(
            "tests/core/consumer/reader/test_reader_markers.py::test_records_behind_a_missing_right_that_was_just_raised_are_returned_by_the_same_poll",
        ),
    ),
    Mutant(
        file="pykafka4/core/consumer/reader.py",
        old="        if not isinstance(error, AuthorizationError):\n            return False\n",
        new="        if not isinstance(error, AuthorizationError):\n            return True\n",
        breaks="errors of the whole consumer are not raised",
        tests=("tests/core/consumer/reader/test_reader_markers.py::test_a_denial_does_not_hide_another_error",),
    ),
    Mutant(
        file="pykafka4/core/consumer/machine.py",
        old="            if isinstance(error, AuthorizationError):",
        new="            if False:",
        breaks="nothing but the log says that automatic commits are denied",
        tests=("tests/testing/test_denials.py::test_an_automatic_commit_that_is_denied_is_raised",),
    ),
)
