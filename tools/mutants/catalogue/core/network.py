"""Bugs of connections and of the choice of a broker."""

from __future__ import annotations

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
    Mutant(
        file="pykafka4/core/network/network.py",
        old="            endpoint.backoff.reset()  # not",
        new="            pass  # not",
        breaks="pauses between connections grow for ever",
        tests=("tests/core/network/test_network.py::test_an_answer_ends_the_growth_of_rests",),
    ),
    Mutant(
        file="pykafka4/core/network/network.py",
        old="        for listener in self.on_lost:\n            listener(now, broker_of(endpoint.node))\n",
        new="",
        breaks="nobody hears of a lost connection",
        tests=("tests/core/metadata/test_cluster_requests.py::test_a_lost_broker_is_reason_to_ask",),
    ),
    Mutant(
        file="pykafka4/core/network/network.py",
        old='            return f"unused for {endpoint.max_idle:g} s"\n',
        new="            return None\n",
        breaks="unused connections stay open",
        tests=("tests/core/network/test_network.py::test_an_unused_connection_is_closed_and_one_in_use_is_not",),
    ),
    Mutant(
        file="pykafka4/core/network/network.py",
        old="        if connection.in_flight:\n            return None\n        if endpoint.leaving",
        new="        if endpoint.leaving",
        breaks="a connection with requests in flight counts as idle",
        tests=("tests/core/network/test_network.py::test_a_broker_that_left_finishes_what_it_has_and_is_closed",),
    ),
    Mutant(
        file="pykafka4/core/network/network.py",
        old="                self._move(now, endpoint, *address)\n",
        new="                pass\n",
        breaks="a broker's new address is ignored",
        tests=("tests/core/network/test_network.py::test_a_broker_that_moved_is_connected_to_at_its_new_address",),
    ),
    Mutant(
        file="pykafka4/core/network/network.py",
        old="        late = [request for request in endpoint.waiting if request.deadline <= now]\n",
        new="        late: list[Request] = []\n",
        breaks="requests to a broker that cannot be reached never fail",
        tests=("tests/core/network/test_network.py::test_a_deadline_counts_for_a_request_that_waits_for_a_backing_off_node",),
    ),
    Mutant(
        file="pykafka4/core/network/network.py",
        old="            outcome = Reply(outcome.message, outcome.version, broker_of(outcome.node))\n",
        new="            pass\n",
        breaks="an answer over a lane names a broker that does not exist",
        tests=("tests/core/network/test_network_lanes.py::test_a_lane_is_a_connection_of_its_own_to_the_same_broker",),
    ),
    Mutant(
        file="pykafka4/core/network/network.py",
        old="self._max_idle = config.connections_max_idle_ms / 1000",
        new="self._max_idle = 540.0",
        breaks="connections_max_idle_ms is ignored",
        tests=("tests/core/network/test_network.py::test_an_unused_connection_is_closed_and_one_in_use_is_not",),
    ),
    Mutant(
        file="pykafka4/core/network/network.py",
        old='"""The number of the connection to `node`, never used for another; None while it is not READY."""\n        connection = self._ready.get(node)\n        return None if connection is None else connection.link',
        new='"""The number of the connection to `node`, never used for another; None while it is not READY."""\n        return None',
        breaks="a new connection to the leader is not noticed",
        tests=("tests/core/network/test_network.py::test_the_number_of_a_connection_is_that_of_a_ready_one_and_another_after_a_loss",),
    ),
    Mutant(
        file="pykafka4/core/network/chooser.py",
        old="            self._stalled(now, connection),\n            connection.muted_until > now,",
        new="            False,\n            connection.muted_until > now,",
        breaks="a silent broker is asked what any broker can answer",
        tests=("tests/core/network/test_network_any.py::test_a_request_for_any_gets_out_although_every_broker_holds_back_an_older_one",),
    ),
    Mutant(
        file="pykafka4/core/network/chooser.py",
        old="            self.avoided_at(now, broker_of(node)),\n",
        new="            0.0,\n",
        breaks="a broker whose metadata did not help is asked again first",
        tests=("tests/core/network/test_network_any.py::test_any_prefers_other_brokers_for_a_while_to_one_that_is_avoided",),
    ),
    Mutant(
        file="pykafka4/core/network/chooser.py",
        old="min(endpoints, key=lambda e: (e.failures, e.node < 0, e.tie), default=None)",
        new="min(endpoints, key=lambda e: (e.tie,), default=None)",
        breaks="a broker that failed is tried again before others",
        tests=("tests/core/network/test_network_any.py::test_bootstrap_addresses_are_tried_again_when_no_known_broker_can_be_reached",),
    ),
    Mutant(
        file="pykafka4/core/network/chooser.py",
        old="least = 0 if any(0 <= node < LANE for node in self._ready) else -INFINITY",
        new="least = -INFINITY",
        breaks="bootstrap servers are connected to again and again while brokers are connected",
        tests=("tests/core/network/test_network_any.py::test_avoiding_every_broker_opens_no_connection_while_all_are_connected",),
    ),
    Mutant(
        file="pykafka4/core/network/connection.py",
        old="self.answers += [(request, Failed(reason, Written.MAYBE)) for request in handed_out]",
        new="self.answers += [(request, Failed(reason, Written.NO)) for request in handed_out]",
        breaks="a lost connection says that nothing was written",
        tests=("tests/core/network/test_connection.py::test_an_answer_that_cannot_be_right_ends_the_connection_for_all",),
    ),
    Mutant(
        file="pykafka4/core/network/connection.py",
        old="self.answers += [(request, Failed(reason, Written.NO)) for request in queued]\n        self.wake_at",
        new="self.wake_at",
        breaks="requests that were queued are never answered when the connection is lost",
        tests=("tests/core/network/test_connection.py::test_an_answer_that_cannot_be_right_ends_the_connection_for_all",),
    ),
    Mutant(
        file="pykafka4/core/network/connection.py",
        old="if (correlation_id := frames.correlation_of(frame)) != flight.correlation_id:",
        new="if (correlation_id := frames.correlation_of(frame)) < 0:",
        breaks="an answer with the wrong correlation id is taken",
        tests=("tests/core/network/test_connection.py::test_an_answer_that_cannot_be_right_ends_the_connection_for_all",),
    ),
    Mutant(
        file="pykafka4/core/network/connection.py",
        old="low, high = max(ours.lo, theirs[0]), min(ours.hi, theirs[1])",
        new="low, high = max(ours.lo, theirs[0]), ours.hi",
        breaks="versions that the broker does not have are used",
        tests=("tests/core/network/test_connection.py::test_produce_is_never_spoken_below_our_minimum_though_brokers_list_it",),
    ),
    Mutant(
        file="pykafka4/core/network/connection.py",
        old="            self._negotiate(now, self._lower(message))\n            return\n",
        new="            pass\n",
        breaks="a broker that refuses the version of ApiVersions is given up",
        tests=("tests/core/network/test_connection.py::test_a_broker_that_does_not_know_our_version_is_asked_again_in_one_it_knows",),
    ),
    Mutant(
        file="pykafka4/core/network/connection.py",
        old="self.muted_until = max(self.muted_until, now + min(throttle / 1000, LONGEST_MUTE))",
        new="pass",
        breaks="a throttle time is ignored",
        tests=("tests/core/network/test_connection.py::test_a_throttled_connection_stops_sending_and_goes_on_receiving",),
    ),
    Mutant(
        file="pykafka4/core/network/connection.py",
        old=' and flight.version >= FIRST_TO_MUTE.get(type(flight.request.message).__name__.removesuffix("Request"), 0)',
        new="",
        breaks="what a broker before 2.0 throttled is throttled again",
        tests=("tests/core/network/test_connection.py::test_where_a_broker_that_throttles_held_the_answer_back_the_connection_goes_on",),
    ),
    Mutant(
        file="pykafka4/core/network/connection.py",
        old="min(throttle / 1000, LONGEST_MUTE)",
        new="throttle / 1000",
        breaks="a throttle time has no bound",
        tests=("tests/core/network/test_connection.py::test_a_damaged_throttle_does_not_mute_a_connection_for_days",),
    ),
    Mutant(
        file="pykafka4/core/network/connection.py",
        old='self.poison(ConnectionLost(f"{self.address}: connection closed, no response to {_name(late[0])} within request_timeout_ms"))',
        new="pass",
        breaks="a connection stays open after a request without a response in time",
        tests=("tests/core/network/test_connection.py::test_a_request_without_reply_that_the_socket_never_takes_ends_the_connection",),
    ),
    Mutant(
        file="pykafka4/core/network/connection.py",
        old='        self.answers += [(request, Failed(_too_late(request, "no response"), Written.MAYBE)) for request in late]',
        new='        self.answers += [(request, Failed(_too_late(request, "no response"), Written.NO)) for request in late]',
        breaks="a request without a response in time counts as not written",
        tests=("tests/core/network/test_connection.py::test_a_request_without_reply_that_the_socket_never_takes_ends_the_connection",),
    ),
    Mutant(
        file="pykafka4/core/network/connection.py",
        old="                later.restart_time(now)\n",
        new="                break\n",
        breaks="a request counts as late though the broker was busy with those before it",
        tests=(
            "tests/core/network/test_connection.py::test_a_broker_has_the_whole_time_for_each_of_several_requests_as_it_takes_them_one_at_a_time",
        ),
    ),
    Mutant(
        file="pykafka4/core/network/connection.py",
        old="        if not flight.was_nearly_late(now):\n",
        new="        if True:\n",
        breaks="batches in flight to a leader that is cut off from its replicas wait for one time-out after the other",
        tests=(
            "tests/core/network/test_connection.py::test_an_answer_that_took_most_of_its_time_gives_those_behind_it_no_more",
            "tests/simulation/test_deaf.py::test_producers_find_the_new_leaders_meanwhile",
        ),
    ),
    Mutant(
        file="pykafka4/core/network/connection.py",
        old="        self.deadline = request.deadline + waited ",
        new="        self.deadline = request.deadline ",
        breaks="the time that a request waits for its connection counts as the broker's",
        tests=("tests/core/network/test_network.py::test_the_time_to_answer_begins_when_a_request_is_written",),
    ),
    Mutant(
        file="pykafka4/core/network/connection.py",
        old="        if self.state is not S.READY and now >= self._setup_deadline:",
        new="        if False:",
        breaks="a connection that never becomes ready is not given up",
        tests=("tests/core/network/test_connection.py::test_a_peer_that_is_silent_before_it_is_ready_is_given_up_at_the_setup_deadline",),
    ),
    Mutant(
        file="pykafka4/core/network/connection.py",
        old="            if request.fit is not None:\n",
        new="            if False:\n",
        breaks="requests are not fitted to the version of the connection",
        tests=(
            "tests/core/network/test_connection.py::test_a_request_made_before_there_was_a_connection_is_fitted_to_the_version_found_then",
        ),
    ),
    Mutant(
        file="pykafka4/core/network/connection.py",
        old="self._correlation = (self._correlation + 1) & MAX_CORRELATION",
        new="self._correlation = self._correlation",
        breaks="all requests have the same correlation id",
        tests=("tests/core/network/test_connection.py::test_replies_go_to_their_requests_in_order_and_carry_version_and_node",),
    ),
)
