"""Bugs of the consumer protocol (KIP-848)."""

from __future__ import annotations

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

SOURCE: Final = "pykafka4/core/group/consumer_protocol.py"
REQUESTS: Final = "pykafka4/core/group/consumer_requests.py"
TESTS: Final = "tests/core/group/test_consumer_protocol.py"

MUTANTS: Final = (
    Mutant(
        file="pykafka4/core/group/consumer_protocol.py",
        old="        if answer.member_epoch != self.generation or answer.assignment is not None:\n",
        new="        if self.generation <= 0:\n",
        breaks="a member notices only after a heartbeat interval that a partition is free for it",
        tests=(f"{TESTS}::test_a_new_epoch_or_assignment_makes_the_next_heartbeats_come_sooner",),
    ),
    Mutant(
        file=SOURCE,
        old="        elif answer.error_code == GONE and self._is_in:",
        new="        elif False:",
        breaks="a member that was removed from a group that is classic again, or was deleted, never comes back",
        tests=(f"{TESTS}::test_a_member_that_was_put_out_loses_its_partitions_and_joins_when_they_are_released",),
    ),
    Mutant(
        file=SOURCE,
        old="            if now < by and tp in incomplete:\n                continue\n",
        new="",
        breaks="a partition is given back while a commit of it is under way",
        tests=(f"{TESTS}::test_a_partition_is_given_back_only_after_its_commits_are_complete",),
    ),
    Mutant(
        file=SOURCE,
        old='            self._commits.fail_lost(dict.fromkeys(late, "the partition was revoked, and the commit was not complete in time"))\n',
        new="            pass\n",
        breaks="a commit of a partition that was given back is sent again and overwrites one of the next owner",
        tests=(f"{TESTS}::test_a_commit_that_is_not_complete_in_time_fails_before_the_partition_is_given_back",),
    ),
    Mutant(
        file=SOURCE,
        old="            self._told = None\n            self._turned_away",
        new="            self._turned_away",
        breaks="after an error the coordinator is not told what is owned",
        tests=(f"{TESTS}::test_a_coordinator_that_moved_is_found_and_gets_a_full_heartbeat",),
    ),
    Mutant(
        file=SOURCE,
        old="        self._told = None\n        reason = ",
        new="        reason = ",
        breaks="after a lost response the coordinator is not told what is owned, and fences the member",
        tests=(f"{TESTS}::test_a_lost_response_makes_the_next_heartbeat_a_full_one_with_the_old_epoch",),
    ),
    Mutant(
        file=SOURCE,
        old="            self.credentials.generation = answer.member_epoch\n",
        new="            pass\n",
        breaks="commits carry the epoch of the join",
        tests=(f"{TESTS}::test_the_epoch_of_the_response_is_that_of_the_next_heartbeat_and_of_commits",),
    ),
    Mutant(
        file=SOURCE,
        old="        self._release_first = self._known and self._config.group_instance_id is not None\n",
        new="",
        breaks="a fenced static member waits for the end of its session",
        tests=(f"{TESTS}::test_a_fenced_static_member_gives_up_its_place_before_it_joins_again",),
    ),
    Mutant(
        file=SOURCE,
        old="        if now >= self._unreleased_since + UNRELEASED_SECONDS:\n",
        new="        if False:\n",
        breaks="two processes with one instance id are never told",
        tests=(f"{TESTS}::test_an_instance_id_that_stays_in_use_is_an_error",),
    ),
    Mutant(
        file=SOURCE,
        old="        return LEAVES if self._config.group_instance_id is None else LEAVES_FOR_A_WHILE\n",
        new="        return LEAVES\n",
        breaks="a static member gives up its partitions when it restarts",
        tests=(f"{TESTS}::test_leaving_says_whether_the_member_comes_back",),
    ),
    Mutant(
        file=SOURCE,
        old="self._settled and self._topics == self._assignee.topics and not self._may_know_more(now)",
        new="self._settled",
        breaks="a topic that the metadata lacks for a moment is never read",
        tests=(f"{TESTS}::test_a_topic_id_without_a_name_waits_for_the_metadata",),
    ),
    Mutant(
        file=SOURCE,
        old="(self._target or {}).get(topic_id, ())",
        new="{number for numbers in (self._target or {}).values() for number in numbers}",
        breaks="a topic that was created again is taken for the one that was deleted",
        tests=(f"{TESTS}::test_a_recreated_topic_is_another_one",),
    ),
    Mutant(
        file=SOURCE,
        old="        if verdict is Reaction.STALE:\n            if self._in_flight is None and generation == self.generation:\n",
        new="        if verdict is Reaction.STALE:\n            if False:\n",
        breaks="a member that missed its new epoch learns of it only with the next heartbeat",
        tests=(f"{TESTS}::test_a_commit_with_an_old_epoch_is_sent_again_with_the_new_one",),
    ),
    Mutant(
        file=SOURCE,
        old="            elif topic is None or by_coordinator:",
        new="            elif topic is None:",
        breaks="a new topic of the coordinator's pattern that a producer of the client knows is read only after metadata_max_age_ms",
        tests=(f"{TESTS}::test_a_topic_that_only_another_user_of_the_client_knows_is_looked_for_as_well",),
    ),
    Mutant(
        file=SOURCE,
        old="                self.credentials.topic_ids.pop(topic, None)\n",
        new="                pass\n",
        breaks="the committed offsets of a recreated topic that others read are looked up by the old id, until the time-out",
        tests=(f"{TESTS}::test_a_lookup_for_a_topic_that_others_read_now_names_it",),
    ),
    Mutant(
        file=SOURCE,
        old="            self._unknown_since, self._look_pause = now, LOOK_SELDOM\n            self._look_at = now + LOOK_SELDOM\n",
        new="            self._unknown_since = now\n",
        breaks="a topic that is never found has all topics of the cluster listed every second",
        tests=(f"{TESTS}::test_a_topic_that_is_not_found_does_not_have_all_topics_listed_every_second_forever",),
    ),
    Mutant(
        file=SOURCE,
        old="            self._unreleased_since = None  # at another coordinator all sessions begin again\n",
        new="",
        breaks="a static member is refused as soon as a coordinator that was away is back",
        tests=(f"{TESTS}::test_the_time_for_an_instance_id_begins_again",),
    ),
    Mutant(
        file=SOURCE,
        old="        self._leave_by, self._rest_until, self._unreleased_since = INFINITY, 0.0, None\n",
        new="        self._leave_by, self._rest_until = INFINITY, 0.0\n",
        breaks="the next subscription of a static member does not wait for the place of the killed one",
        tests=(f"{TESTS}::test_the_time_for_an_instance_id_begins_again",),
    ),
    Mutant(
        file=SOURCE,
        old="min(self._config.request_timeout_ms / 1000, self._heartbeat.patience)",
        new="self._config.request_timeout_ms / 1000",
        breaks="a silent coordinator is noticed after the session is over",
        tests=(f"{TESTS}::test_a_silent_coordinator_is_given_up_before_the_session_is_over",),
    ),
    Mutant(
        file=REQUESTS,
        old="        message.server_assignor = config.group_remote_assignor\n",
        new="",
        breaks="group_remote_assignor is ignored",
        tests=("tests/test_options.py::test_the_option_reaches_the_wire_or_the_behaviour[group_remote_assignor]",),
    ),
    Mutant(
        file=REQUESTS,
        old="    if told is None or told.owned != report.owned:\n",
        new="    if told is None:\n",
        breaks="assignments are not acknowledged",
        tests=(f"{TESTS}::test_an_assignment_is_acknowledged_at_once",),
    ),
    Mutant(
        file=SOURCE,
        old="        return bool(gone - self._owned.report())\n",
        new="        return False\n",
        breaks="the coordinator waits for partitions to be given back that the member never took up",
        tests=(f"{TESTS}::test_partitions_that_were_taken_away_before_they_were_known_are_reported_as_not_owned",),
    ),
    Mutant(
        file=REQUESTS,
        old='        message.subscribed_topic_regex = report.regex or ""  # null: as before\n',
        new="        message.subscribed_topic_regex = report.regex\n",
        breaks="the coordinator goes on matching a pattern that the member has given up",
        tests=(f"{TESTS}::test_a_pattern_is_sent_and_not_the_topics_that_match",),
    ),
    Mutant(
        file=SOURCE,
        old="self._assignee.topics if regex is None else self._assignee.listed, regex",
        new="self._assignee.topics, regex",
        breaks="the topics that match are sent as names, and stay subscribed to when they no longer match",
        tests=(f"{TESTS}::test_a_pattern_is_sent_and_not_the_topics_that_match",),
    ),
    Mutant(
        file=SOURCE,
        old="        self._assignee.look_for_topics(now)\n",
        new="",
        breaks="a topic that the coordinator assigns is noticed only after metadata_max_age_ms",
        tests=(f"{TESTS}::test_the_topic_of_an_unknown_id_is_looked_for_and_read_as_soon_as_it_is_known",),
    ),
    Mutant(
        file=SOURCE,
        old="        return now >= self._look_at or (self._look_at < INFINITY and self._cluster.version != self._version)\n",
        new="        return now >= self._look_at\n",
        breaks="a topic is read a second after its metadata arrived",
        tests=(f"{TESTS}::test_the_topic_of_an_unknown_id_is_looked_for_and_read_as_soon_as_it_is_known",),
    ),
)
