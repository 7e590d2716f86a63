"""Bugs of the application's side of a member, subscribed topics, the coordinator and commits."""

from __future__ import annotations

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
    Mutant(
        file="pykafka4/core/group/membership.py",
        old="        if now < ends:\n            return ends\n        reason",
        new="        return ends\n        reason",
        breaks="max_poll_interval_ms is not enforced",
        tests=("tests/core/group/test_membership.py::test_an_application_that_stops_polling_leaves_exactly_when_due",),
    ),
    Mutant(
        file="pykafka4/core/group/membership.py",
        old="        if now >= release_by:\n",
        new="        if False:\n",
        breaks="a revocation waits for ever",
        tests=("tests/core/group/test_membership.py::test_a_revocation_that_is_not_answered_in_time_is_a_loss",),
    ),
    Mutant(
        file="pykafka4/core/group/membership.py",
        old="        claims = tuple(Claim(tp) for tp in dict.fromkeys(partitions) if tp.topic in subscribed)\n",
        new="        claims = tuple(Claim(tp) for tp in partitions)\n",
        breaks="partitions of topics no longer subscribed to are taken up",
        tests=("tests/core/group/test_topics.py::test_assigned_partitions_of_topics_that_are_not_subscribed_to_are_not_taken_up",),
    ),
    Mutant(
        file="pykafka4/core/group/topics.py",
        old="return Start.EARLIEST if is_new and self._policy is Start.LATEST else self._policy",
        new="return self._policy",
        breaks="partitions that appear after the subscription are read from their end",
        tests=("tests/consumer/test_rebalance.py::test_new_partitions_of_a_subscribed_topic_are_read_from_their_beginning",),
    ),
    Mutant(
        file="pykafka4/core/group/topics.py",
        old="            for topic in sorted(set(self.names).intersection(changed)):\n",
        new="            for topic in self.names:\n",
        breaks="a change of one topic has all subscribed topics looked at",
        tests=("tests/core/group/test_topics.py::test_only_topics_that_changed_are_looked_at_and_only_while_there_is_a_subscription",),
    ),
    Mutant(
        file="pykafka4/core/group/topics.py",
        old="            if missing or (before is not None and topic_id != before):\n",
        new="            if missing:\n",
        breaks="with latest, records of a topic created again are skipped after a rebalance",
        tests=("tests/core/group/test_topics.py::test_a_recreated_topic_is_read_from_its_beginning_by_the_member_it_is_assigned_to",),
    ),
    Mutant(
        file="pykafka4/core/group/topics.py",
        old="            if missing or (before is not None and topic_id != before):\n",
        new="            if before is not None and topic_id != before:\n",
        breaks="with latest, records of a topic without an id that was created again are skipped after a rebalance",
        tests=("tests/core/group/test_topics.py::test_a_recreated_topic_is_read_from_its_beginning_by_the_member_it_is_assigned_to",),
    ),
    Mutant(
        file="pykafka4/core/group/topics.py",
        old='            self._tell(Trouble(None, broker_error(error.code, f"topic {topic}"), Lasting.ONCE))\n',
        new="",
        breaks="nobody hears of a subscribed topic that may not be described",
        tests=(
            "tests/consumer/test_membership.py::test_a_subscribed_topic_that_may_not_be_described_is_named_by_poll_and_the_others_are_read",
        ),
    ),
    Mutant(
        file="pykafka4/core/group/coordinator.py",
        old="            self._call.rest(now, reason)\n",
        new="",
        breaks="a lost coordinator is looked up without a back-off",
        tests=("tests/core/group/test_coordinator.py::test_a_lost_coordinator_is_looked_up_after_a_back_off",),
    ),
    Mutant(
        file="pykafka4/core/group/coordinator.py",
        old="            self._network.avoid(now, node)  # frozen",
        new="            pass  # frozen",
        breaks="a lost coordinator is itself asked for the coordinator",
        tests=("tests/core/group/test_coordinator.py::test_a_broker_that_reported_a_wrong_coordinator_is_avoided_until_one_responds",),
    ),
    Mutant(
        file="pykafka4/core/group/coordinator.py",
        old="        if now < due:\n            return due\n        self._checked_at = now",
        new="        return INFINITY",
        breaks="a coordinator that holds back a join is never checked",
        tests=("tests/core/group/test_classic.py::test_a_join_does_not_wait_for_a_coordinator_that_is_none_any_more",),
    ),
    Mutant(
        file="pykafka4/core/group/offsets.py",
        old="if self._late.get(tp, now) > now:",
        new="if False:",
        breaks="a commit that a lost request may undo is not repeated",
        tests=("tests/core/group/test_offsets.py::test_auto_commit_repeats_itself_while_a_lost_commit_may_still_be_executed",),
    ),
    Mutant(
        file="pykafka4/core/group/offsets.py",
        old="group_instance_id=credentials.instance_id,",
        new="group_instance_id=None,",
        breaks="commits do not name the static member",
        tests=("tests/core/consumer/test_consumer_options.py::test_every_request_of_a_static_member_names_its_instance",),
    ),
    Mutant(
        file="pykafka4/core/group/offsets.py",
        old="generation_id_or_member_epoch=credentials.generation,",
        new="generation_id_or_member_epoch=-1,",
        breaks="commits do not name the generation",
        tests=("tests/core/group/test_offsets.py::test_a_commit_carries_epoch_metadata_and_membership",),
    ),
    Mutant(
        file="pykafka4/core/group/offsets.py",
        old="committed_leader_epoch=place.leader_epoch,",
        new="committed_leader_epoch=-1,",
        breaks="commits lose the leader epoch",
        tests=("tests/core/group/test_offsets.py::test_a_commit_carries_epoch_metadata_and_membership",),
    ),
    Mutant(
        file="pykafka4/core/group/offsets.py",
        old="committed_metadata=place.metadata,",
        new='committed_metadata="",',
        breaks="commits lose their metadata",
        tests=("tests/core/group/test_offsets.py::test_a_commit_carries_epoch_metadata_and_membership",),
    ),
    Mutant(
        file="pykafka4/core/group/offsets.py",
        old="verdicts = dict.fromkeys(asked, Reaction.RETRY)",
        new="verdicts = dict.fromkeys(asked, Reaction.NONE)",
        breaks="a partition left out of a commit's answer counts as stored",
        tests=("tests/core/group/test_offsets.py::test_a_partition_that_the_answer_leaves_out_is_not_stored",),
    ),
    Mutant(
        file="pykafka4/core/group/offsets.py",
        old="Reaction.REFIND: Next.ELSEWHERE",
        new="Reaction.REFIND: Next.RETRY",
        breaks="commits and lookups go on to a broker that is not the coordinator",
        tests=(
            "tests/core/group/test_offsets.py::test_a_commit_follows_the_coordinator",
            "tests/core/group/test_offsets.py::test_a_lookup_follows_the_coordinator",
        ),
    ),
    Mutant(
        file="pykafka4/core/group/offsets.py",
        old="                self._call.start_over()\n",
        new="                pass\n",
        breaks="a commit waits for the back-off of the commit before it",
        tests=("tests/core/group/test_offsets.py::test_the_pause_of_a_commit_that_ran_out_of_time_is_not_that_of_the_next",),
    ),
    Mutant(
        file="pykafka4/core/group/offsets.py",
        old="            lookup.some(now, _found(answer, found))\n",
        new="            pass\n",
        breaks="partitions found beside a refused one are never located",
        tests=(
            "tests/core/consumer/test_start_offsets.py::test_a_partition_whose_committed_offset_is_refused_does_not_keep_the_others_from_being_read",
        ),
    ),
    Mutant(
        file="pykafka4/core/group/offsets.py",
        old="        self._tell_found(now, lookup, outcome.message)\n",
        new="",
        breaks="a partition whose committed offset is refused keeps the others from being read",
        tests=(
            "tests/core/consumer/test_start_offsets.py::test_a_partition_whose_committed_offset_is_refused_does_not_keep_the_others_from_being_read",
        ),
    ),
    Mutant(
        file="pykafka4/core/group/offsets.py",
        old="        return now >= commit.unknown_until or not self._exists(tp.topic)\n",
        new="        return False\n",
        breaks="commits wait for a minute behind one of a deleted partition",
        tests=("tests/core/group/test_offsets.py::test_commits_wait_only_so_long_behind_one_of_a_deleted_partition",),
    ),
    Mutant(
        file="pykafka4/core/group/membership.py",
        old="        self._partitions.drop(ended.claims)\n",
        new="        self._partitions.drop(self._claims.values())\n",
        breaks="a revocation of some partitions stops all",
        tests=("tests/core/group/test_incremental.py::test_kept_partitions_are_read_on_while_others_are_revoked",),
    ),
    Mutant(
        file="pykafka4/core/group/membership.py",
        old="reason, deadline if claims else INFINITY))",
        new="reason, deadline))",
        breaks="the deadline of an empty revocation brings a rejected member back",
        tests=("tests/core/group/test_membership.py::test_a_member_that_was_rejected_while_it_released_nothing_stays_out",),
    ),
    Mutant(
        file="pykafka4/core/group/membership.py",
        old="        if self._claims:  # an application that has not seen",
        new="        if False:  # an application that has not seen",
        breaks="an application keeps partitions that it took up just before the member left",
        tests=("tests/consumer/test_interrupts.py::test_an_assignment_taken_up_before_the_loop_has_left_the_group_ends",),
    ),
    Mutant(
        file="pykafka4/core/group/offsets.py",
        old="                self.stored.pop(tp, None)  # until the response\n",
        new="                pass\n",
        breaks="the last commit is skipped behind an older offset in line",
        tests=("tests/core/group/test_offsets.py::test_the_last_commit_follows_an_older_offset_that_waits",),
    ),
    Mutant(
        file="pykafka4/core/group/membership.py",
        old="            claim.ended = True\n        self._ending.append(ended)",
        new="            pass\n        self._ending.append(ended)",
        breaks="partitions that ended before the application saw them are not marked",
        tests=("tests/core/group/test_incremental.py::test_partitions_that_end_before_the_application_saw_them_are_marked",),
    ),
    Mutant(
        file="pykafka4/core/group/membership.py",
        old="        if not self.topics or self._claims or self._ending:\n",
        new="        if not self.topics or self._ending:\n",
        breaks="a member joins while it holds partitions",
        tests=("tests/core/group/test_incremental.py::test_a_member_that_is_out_joins_when_everything_is_released",),
    ),
    Mutant(
        file="pykafka4/core/group/membership.py",
        old="            if any(claim.tp in lost for claim in ended.claims):\n",
        new="            if False:\n",
        breaks="a revocation stays one when its partitions are lost",
        tests=("tests/core/group/test_incremental.py::test_a_loss_of_some_partitions_fails_their_commits_and_no_others",),
    ),
    Mutant(
        file="pykafka4/core/group/membership.py",
        old="        self._commits.fail_lost(self.losses())\n",
        new="",
        breaks="commits of lost partitions are sent",
        tests=("tests/core/group/test_incremental.py::test_a_loss_of_some_partitions_fails_their_commits_and_no_others",),
    ),
    Mutant(
        file="pykafka4/core/group/offsets.py",
        old='next((losses[tp] for tp in commit.offsets if tp in losses), "")',
        new='next(iter(losses.values()), "")',
        breaks="a loss fails the commits of partitions that are kept",
        tests=("tests/core/group/test_incremental.py::test_a_loss_of_some_partitions_fails_their_commits_and_no_others",),
    ),
)
