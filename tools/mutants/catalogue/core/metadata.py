"""Bugs of metadata and of the recovery of offline partitions."""

from __future__ import annotations

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

QUEUE = "tests/core/metadata/test_metadata_queue.py::"
LEADERLESS = "tests/core/metadata/test_recovery.py::test_thousands_of_partitions_without_leader_cost_no_connection_and_no_scan"

MUTANTS: Final = (
    Mutant(
        file="pykafka4/core/metadata/recovery.py",
        old="                self._network.want(node)  # again",
        new="                pass  # again",
        breaks="a leader whose connection ended in the turn it was ready is not connected to again",
        tests=(
            "tests/core/metadata/test_recovery.py::test_a_leader_whose_connection_ended_in_the_turn_it_was_ready_is_connected_to_again",
        ),
    ),
    Mutant(
        file="pykafka4/core/metadata/cluster.py",
        old="            self._announce(before)\n            self._unplaced",
        new="            self._unplaced",
        breaks="a broker that a hint brought is never announced",
        tests=("tests/core/metadata/test_cluster_answers.py::test_a_broker_that_a_hint_brought_is_announced_like_any_other",),
    ),
    Mutant(
        file="pykafka4/core/metadata/cluster.py",
        old="create and gone and self._config.allow_auto_create_topics)",
        new="create and gone)",
        breaks="allow_auto_create_topics is ignored",
        tests=("tests/core/metadata/test_cluster_wanted.py::test_the_option_forbids_creation",),
    ),
    Mutant(
        file="pykafka4/core/metadata/cluster.py",
        old="known is None or not 0 <= tp.partition < len(known.leaders) or epoch <= known.epochs[tp.partition]:",
        new="known is None or not 0 <= tp.partition < len(known.leaders):",
        breaks="an older leader epoch replaces a newer one",
        tests=("tests/core/metadata/test_cluster_answers.py::test_a_newer_leader_hint_is_accepted_and_an_older_or_equal_one_is_not",),
    ),
    Mutant(
        file="pykafka4/core/metadata/cluster.py",
        old="        if not users and self._wanted.pop(topic, None) is not None:\n            self._drop(topic)",
        new="        pass",
        breaks="a topic that nobody needs is asked for for ever",
        tests=("tests/core/metadata/test_cluster_wanted.py::test_what_its_last_user_forgets_is_not_asked_for_and_not_known_any_more",),
    ),
    Mutant(
        file="pykafka4/core/metadata/cluster.py",
        old="            self._dismiss(waiter)\n            waiter.then(reason)\n",
        new="            self._dismiss(waiter)\n",
        breaks="a caller that waits for metadata gets no error after a crash",
        tests=("tests/core/metadata/test_cluster.py::test_a_crash_fails_pending_refreshes",),
    ),
    Mutant(
        file="pykafka4/core/metadata/cluster.py",
        old="if since > -INFINITY and since + PATIENCE <= now:",
        new="if False:",
        breaks="a silent broker is the only one asked for metadata",
        tests=("tests/core/metadata/test_cluster_requests.py::test_a_broker_that_does_not_answer_is_not_waited_for",),
    ),
    Mutant(
        file="pykafka4/core/metadata/cluster.py",
        old="        if now >= self._expires:\n",
        new="        if False:\n",
        breaks="the picture is never renewed for its age",
        tests=(
            "tests/core/metadata/test_cluster_requests.py::test_metadata_is_refreshed_before_its_maximum_age_and_not_in_step_with_other_clients",
        ),
    ),
    Mutant(
        file="pykafka4/core/metadata/cluster.py",
        old="        if node >= 0 or not self._network.up:\n            self.refresh(now)",
        new="        pass",
        breaks="a lost connection does not refresh the metadata",
        tests=("tests/core/metadata/test_cluster_requests.py::test_a_lost_broker_triggers_a_refresh",),
    ),
    Mutant(
        file="pykafka4/core/metadata/cluster.py",
        old="        if not brokers:  # a broker that has just started",
        new="        if number < 0:  # a broker that has just started",
        breaks="a broker that has just started is believed that topics do not exist",
        tests=("tests/core/metadata/test_cluster_answers.py::test_topics_of_an_answer_without_brokers_are_ignored",),
    ),
    Mutant(
        file="pykafka4/core/metadata/cluster.py",
        old="            self._network.avoid(now, outcome.node)\n",
        new="",
        breaks="a broker that has just started is asked again before others",
        tests=("tests/core/metadata/test_cluster_requests.py::test_an_answer_without_brokers_is_requested_from_another_broker",),
    ),
    Mutant(
        file="pykafka4/core/metadata/cluster.py",
        old="for name in self._wanted if self._gone else ():",
        new="for name in self._wanted:",
        breaks="a broker that came has all topics looked at",
        tests=("tests/core/producer/test_scale.py::test_what_happens_to_one_topic_costs_no_more_among_many",),
    ),
    Mutant(
        file="pykafka4/core/metadata/cluster.py",
        old="before.keys() - brokers.keys()",
        new="brokers.keys() - before.keys()",
        breaks="what a broker led that left the cluster stays with it",
        tests=(
            "tests/core/metadata/test_cluster_answers.py::test_a_leader_that_left_leads_nothing_and_its_topics_are_requested_whatever_the_answer_was_about",
        ),
    ),
    Mutant(
        file="pykafka4/core/metadata/cluster.py",
        old="            check_topic(topic)\n        known = self._topic(topic)\n",
        new="            pass\n        known = self._topic(topic)\n",
        breaks="a name that is none spoils the metadata requests of everybody",
        tests=("tests/core/metadata/test_cluster.py::test_a_name_that_kafka_does_not_allow_is_refused_and_spoils_no_other_request",),
    ),
    Mutant(
        file="pykafka4/core/metadata/cluster.py",
        old=" and not self._queue.in_rotation(name):\n",
        new=":\n",
        breaks="topics of a leader that cannot be reached are asked for every second, however many",
        tests=(f"{QUEUE}test_topics_of_a_leader_that_cannot_be_connected_to_are_asked_for_within_the_budget",),
    ),
    Mutant(
        file="pykafka4/core/metadata/cluster.py",
        old="        self._topic(name)\n        self._queue.put(name, now)\n",
        new="        self._ask_for(name, now)\n",
        breaks="a call that waits for a topic waits for its turn among thousands",
        tests=(f"{QUEUE}test_a_topic_with_a_pending_wait_is_requested_out_of_turn",),
    ),
    Mutant(
        file="pykafka4/core/metadata/cluster.py",
        old="self._config.metadata_max_age_ms / 1000",
        new="300.0",
        breaks="metadata_max_age_ms is ignored",
        tests=(
            "tests/core/metadata/test_cluster_requests.py::test_metadata_is_refreshed_before_its_maximum_age_and_not_in_step_with_other_clients",
        ),
    ),
    Mutant(
        file="pykafka4/core/metadata/metadata_queue.py",
        old="                if cost > left and left < BUDGET:\n                    break\n",
        new="",
        breaks="thousands of leaderless topics are asked for every second",
        tests=(f"{QUEUE}test_thousands_of_leaderless_topics_are_asked_for_within_a_budget",),
    ),
    Mutant(
        file="pykafka4/core/metadata/metadata_queue.py",
        old="if cost > left and left < BUDGET:",
        new="if cost > left:",
        breaks="a topic with very many partitions is never asked for again",
        tests=(f"{QUEUE}test_the_first_topic_goes_even_if_it_is_over_the_budget",),
    ),
    Mutant(
        file="pykafka4/core/metadata/metadata_queue.py",
        old="        self._rush = bool(self._rotation)\n",
        new="        pass\n",
        breaks="the end of an outage is noticed one turn after the other",
        tests=(f"{QUEUE}test_a_change_of_one_topic_requests_all_others_at_once",),
    ),
    Mutant(
        file="pykafka4/core/metadata/topic.py",
        old="        elif known is None or known.node != node or known.epoch != epoch:\n",
        new="        else:\n",
        breaks="every answer makes new objects for thousands of partitions that did not change",
        tests=("tests/core/metadata/test_cluster_requests.py::test_an_answer_without_changes_creates_no_new_objects",),
    ),
    Mutant(
        file="pykafka4/core/metadata/topic.py",
        old="        return topic_id in self.former_ids and not self._contradicted(now)\n",
        new="        return topic_id in self.former_ids\n",
        breaks="a client that learns of a new topic id first, and of the old id from a broker that lags behind, never uses the new one",
        tests=(
            "tests/core/metadata/test_cluster_answers.py::test_a_replaced_topic_id_is_accepted_when_no_broker_has_sent_another_for_long",
        ),
    ),
    Mutant(
        file="pykafka4/core/metadata/topic.py",
        old="        self.former_ids -= {topic_id}\n",
        new="",
        breaks="a topic id that came back counts as replaced, and ends the topic again after a while",
        tests=(
            "tests/core/metadata/test_cluster_answers.py::test_a_replaced_topic_id_is_accepted_when_no_broker_has_sent_another_for_long",
        ),
    ),
    Mutant(
        file="pykafka4/core/metadata/topic.py",
        old="        if not older:\n            self.behind_since = None\n        elif self._contradicted(now):",
        new="        if older and self._contradicted(now):",
        breaks="a broker that lags behind is believed although others tell the present topic id",
        tests=("tests/core/metadata/test_cluster_answers.py::test_a_replaced_topic_id_is_ignored_while_a_broker_sends_the_current_one",),
    ),
    Mutant(
        file="pykafka4/core/metadata/recovery.py",
        old="return None if self.offline and tp in self.offline else self._cluster.leader(tp)",
        new="return self._cluster.leader(tp)",
        breaks="an offline partition takes requests",
        tests=("tests/core/metadata/test_recovery.py::test_a_partition_that_failed_has_no_leader_and_the_others_keep_theirs",),
    ),
    Mutant(
        file="pykafka4/core/metadata/recovery.py",
        old="        self._cluster.refresh(now, (tp.topic,))\n        self._changed",
        new="        self._changed",
        breaks="a failed partition does not refresh the metadata",
        tests=("tests/core/metadata/test_recovery.py::test_a_failed_partition_requests_metadata_at_once",),
    ),
    Mutant(
        file="pykafka4/core/metadata/recovery.py",
        old="elif now + self._slack >= offline.not_before or leader != offline.failed:",
        new="else:",
        breaks="a partition comes back before its back-off is over",
        tests=("tests/core/metadata/test_recovery.py::test_the_partition_returns_to_the_same_leader_after_the_back_off",),
    ),
    Mutant(
        file="pykafka4/core/metadata/recovery.py",
        old="self._slack = min(SLACK, SLACK_PART * config.retry_backoff_ms / 1000)",
        new="self._slack = SLACK",
        breaks="a back-off of a few milliseconds is skipped",
        tests=("tests/core/metadata/test_recovery.py::test_a_short_back_off_is_waited_for_too",),
    ),
    Mutant(
        file="pykafka4/core/metadata/recovery.py",
        old="        if node is not None:\n            self._network.want(node)\n        if node == offline",
        new="        if node == offline",
        breaks="no connection to a new leader is opened",
        tests=("tests/core/metadata/test_recovery.py::test_a_new_leader_is_connected_to_although_no_other_connection_comes_or_goes",),
    ),
    Mutant(
        file="pykafka4/core/metadata/recovery.py",
        old="            self.changes += 1\n            for",
        new="            for",
        breaks="the sender is not notified that a partition is back",
        tests=("tests/core/metadata/test_recovery.py::test_the_partition_returns_to_the_same_leader_after_the_back_off",),
    ),
    Mutant(
        file="pykafka4/core/metadata/recovery.py",
        old="            known.reason = reason\n            return\n",
        new="            known.reason = reason\n",
        breaks="each lost request of a partition counts as another failure",
        tests=("tests/core/metadata/test_recovery.py::test_the_failures_of_requests_under_way_together_are_one_failure",),
    ),
    Mutant(
        file="pykafka4/core/metadata/recovery.py",
        old="        self._timers.at(offline.not_before, partial(self._look, tp))\n",
        new="",
        breaks="nobody looks at a partition when its back-off is over",
        tests=("tests/core/metadata/test_recovery.py::test_the_partition_returns_to_the_same_leader_after_the_back_off",),
    ),
    Mutant(
        file="pykafka4/core/metadata/recovery.py",
        old="        self._changed.update(change.topics & self._outages.keys())\n",
        new="        pass\n",
        breaks="recovery does not hear of new leaders",
        tests=("tests/core/metadata/test_recovery.py::test_the_partition_moves_to_a_new_leader_at_once",),
    ),
    Mutant(
        file="pykafka4/core/metadata/recovery.py",
        old="        if self._network.up and not self._up:\n",
        new="        if self._network.up:\n",
        breaks="each connection that comes or goes has all offline topics looked at",
        tests=("tests/core/metadata/test_recovery.py::test_partitions_without_a_leader_are_checked_only_when_their_metadata_changes",),
    ),
    Mutant(
        file="pykafka4/core/metadata/recovery.py",
        old="        for tp in outage.partitions:\n            if (node",
        new="        for tp in self.offline:\n            if (node",
        breaks="the question for one topic has the brokers of all offline partitions connected to",
        tests=("tests/core/metadata/test_recovery.py::test_partitions_without_a_leader_are_checked_only_when_their_metadata_changes",),
    ),
    Mutant(
        file="pykafka4/core/metadata/recovery.py",
        old="        self._changed.update(change.topics & self._outages.keys())\n",
        new="        self._changed.update(self._outages)\n",
        breaks="every offline partition is looked at whenever any topic changes",
        tests=(LEADERLESS,),
    ),
    Mutant(
        file="pykafka4/core/metadata/recovery.py",
        old="        if not outage.asking and self._network.up and not self._cluster.seeks(topic):\n",
        new="        if False:\n",
        breaks="nobody asks for a partition that the metadata does not know",
        tests=("tests/core/metadata/test_recovery.py::test_a_partition_that_the_metadata_does_not_know_is_asked_about",),
    ),
    Mutant(
        file="pykafka4/core/metadata/changes.py",
        old="        topics, self._topics = self._topics, set()\n",
        new="        topics = self._topics\n",
        breaks="a topic that changed once is looked at in every turn",
        tests=("tests/core/metadata/test_changes.py::test_several_changes_of_a_topic_are_taken_once_and_by_each_machine",),
    ),
    Mutant(
        file="pykafka4/core/metadata/topic.py",
        old="            return self.error.retriable or self.error.denied\n",
        new="            return self.error.retriable\n",
        breaks="a denied topic is not asked for again: what is granted is noticed after minutes",
        tests=(
            "tests/core/metadata/test_cluster_denied.py::test_a_denied_topic_is_asked_for_while_it_is_used_and_known_soon_after_the_grant",
        ),
    ),
    Mutant(
        file="pykafka4/core/metadata/topic.py",
        old=" or self.judged <= after:",
        new=":",
        breaks="a refusal from before a user came is its error",
        tests=("tests/core/metadata/test_cluster_denied.py::test_a_refusal_counts_only_for_who_came_before_its_request",),
    ),
    Mutant(
        file="pykafka4/core/metadata/topic.py",
        old="creating=self.creating)",
        new="creating=False)",
        breaks="a topic that may not be created is said to lack DESCRIBE only",
        tests=("tests/core/metadata/test_cluster_denied.py::test_a_refusal_names_the_right",),
    ),
    Mutant(
        file="pykafka4/core/metadata/cluster.py",
        old="            self._topics[name].judged = number\n",
        new="            self._topics[name].judged = 1\n",
        breaks="a repeated refusal is never the error of who came after the first",
        tests=("tests/core/metadata/test_cluster_denied.py::test_a_refusal_counts_only_for_who_came_before_its_request",),
    ),
    Mutant(
        file="pykafka4/core/metadata/cluster.py",
        old="            self._tell(Change(self.version, refused, False))",
        new="            pass",
        breaks="users that came after the first refusal never hear of one",
        tests=(
            "tests/core/metadata/test_cluster_denied.py::test_users_that_came_since_hear_of_a_repeated_refusal_and_nobody_takes_it_for_a_change",
        ),
    ),
    Mutant(
        file="pykafka4/core/metadata/cluster.py",
        old=" is not None) - topics:",
        new=" is not None):",
        breaks="the first refusal is heard twice",
        tests=("tests/core/metadata/test_cluster_denied.py::test_the_first_refusal_is_heard_once",),
    ),
    Mutant(
        file="pykafka4/core/metadata/cluster.py",
        old="            self._tell(Change(self.version, refused, False))",
        new="            self._changed(refused, False)",
        breaks="a repeated refusal counts as a change of the metadata",
        tests=(
            "tests/core/metadata/test_cluster_denied.py::test_users_that_came_since_hear_of_a_repeated_refusal_and_nobody_takes_it_for_a_change",
        ),
    ),
    Mutant(
        file="pykafka4/core/metadata/cluster.py",
        old="waiter.then(refusals[0] if refusals else None)",
        new="waiter.then(None)",
        breaks="refresh_metadata of a denied topic succeeds",
        tests=(
            "tests/core/metadata/test_cluster_denied.py::test_a_refresh_of_named_topics_ends_with_the_denial_and_one_of_all_topics_does_not",
            "tests/testing/test_denials.py::test_what_was_refused_to_one_user_of_a_client_is_asked_again_for_the_next",
        ),
    ),
    Mutant(
        file="pykafka4/core/metadata/cluster.py",
        old="wishes, frozenset() if topics is None else wishes)",
        new="wishes, wishes)",
        breaks="refresh_metadata of all topics raises that one of them is denied",
        tests=(
            "tests/core/metadata/test_cluster_denied.py::test_a_refresh_of_named_topics_ends_with_the_denial_and_one_of_all_topics_does_not",
        ),
    ),
    Mutant(
        file="pykafka4/core/metadata/cluster.py",
        old="        if hurried:\n",
        new="        if False:\n",
        breaks="a new user of a denied topic waits for the back-off of the others",
        tests=(
            "tests/core/metadata/test_cluster_denied.py::test_a_new_user_of_a_denied_topic_does_not_wait_for_the_back_off_and_an_old_one_does",
        ),
    ),
    Mutant(
        file="pykafka4/core/metadata/cluster.py",
        old=" and known.error.denied and user not in users  #",
        new=" and known.error.denied  #",
        breaks="a user of a denied topic asks for it without a back-off",
        tests=(
            "tests/core/metadata/test_cluster_denied.py::test_a_new_user_of_a_denied_topic_does_not_wait_for_the_back_off_and_an_old_one_does",
        ),
    ),
    Mutant(
        file="pykafka4/core/metadata/coordinators.py",
        old="            self._call.rest(now, reason)\n",
        new="",
        breaks="a lost coordinator is looked up without a back-off",
        tests=("tests/core/group/test_coordinator.py::test_a_lost_coordinator_is_looked_up_after_a_back_off",),
    ),
    Mutant(
        file="pykafka4/core/metadata/coordinators.py",
        old="            self._network.avoid(now, node)  # frozen",
        new="            pass  # frozen",
        breaks="a lost coordinator is itself asked for the coordinator",
        tests=("tests/core/group/test_coordinator.py::test_a_broker_that_reported_a_wrong_coordinator_is_avoided_until_one_responds",),
    ),
    Mutant(
        file="pykafka4/core/metadata/topic.py",
        old="        if epoch < self.epochs[partition]:\n",
        new="        if -1 < epoch < self.epochs[partition]:\n",
        breaks="a response without an epoch replaces a leader whose epoch is known",
        tests=(
            "tests/core/metadata/test_cluster.py::test_a_lower_epoch_or_none_does_not_replace_a_known_one_until_nothing_newer_was_heard_for_long",
        ),
    ),
)
