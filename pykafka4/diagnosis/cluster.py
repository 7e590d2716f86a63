"""Checks brokers, their listeners and versions, the controller and its clock. Findings about brokers that are down come first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pykafka4.core.admin.cluster import Broker, QuorumDescription, QuorumReplica
from pykafka4.core.network.connection import SOFTWARE_NAME, SOFTWARE_VERSION
from pykafka4.diagnosis.access import look_at
from pykafka4.diagnosis.addresses import ADVERTISED, FROZEN, shown_address, wall_s
from pykafka4.diagnosis.case import Case, failed
from pykafka4.diagnosis.values import Finding, Outcome
from pykafka4.errors import KafkaError, UnsupportedVersion, listed
from pykafka4.native import monotonic
from pykafka4.wire.protocol.messages_cluster import ApiVersionsRequest, ApiVersionsResponse

__all__ = ["look_at_brokers", "look_at_controller", "look_at_listeners"]

START: Final = "start it, or see in its log why it cannot reach the controllers; its replicas lag until then"
SKEW_S: Final = 5.0  # a smaller difference of the clocks rarely harms certificates, tokens and times of records
ASKED: Final = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION)
CALL_S: Final = 0.5  # a call should end by its own deadline; this long after the deadline, the check continues without the call
LAGGING: Final = 1_000  # records of the metadata log; an idle cluster writes two a second


def look_at_brokers(case: Case, seconds: float) -> Iterator[Finding]:
    case.connect(seconds)
    try:
        cluster = case.cluster = case.admin.describe_cluster(timeout=seconds)
    except KafkaError as error:
        yield failed("brokers", "", "the cluster cannot be described", error)
        return
    fenced = [broker for broker in cluster.brokers if broker.is_fenced]
    for broker in fenced:
        what, evidence = "is down, or cut off from the controllers", "registered, but fenced: it sends no heartbeats"
        yield Finding("brokers", _named(broker), Outcome.WRONG, what, evidence, START)
    up = _up(case)
    evidence = f"cluster {cluster.cluster_id}: {listed(up, _named)}"
    yield Finding("brokers", "", Outcome.FINE, f"{len(up)} broker{'s are' if len(up) != 1 else ' is'} up", evidence)


def look_at_listeners(case: Case, seconds: float) -> Iterator[Finding]:
    """Check that this machine reaches the advertised addresses, and that each broker answers at its own address."""
    brokers = {(broker.host, broker.port): broker for broker in _up(case)}
    for address in [address for address in brokers if not case.config.allows(address[0])]:
        broker = brokers.pop(address)
        yield Finding(
            "listeners", _named(broker), Outcome.WRONG, "must not be connected to", "allowed_hosts", "add its host to allowed_hosts"
        )
    new = [address for address in brokers if address not in case.reachable and address not in case.faulty]
    if case.config.proxy_url is None:
        for step in ("names", "ports", *(["tls"] if case.context else [])):
            yield from (one for one in look_at(step, case, new, ADVERTISED, seconds / 4) if one.outcome is not Outcome.FINE)
    yield from _answers(case, [broker for address, broker in brokers.items() if address not in case.faulty], seconds / 4)


def _up(case: Case) -> list[Broker]:
    return [broker for broker in case.cluster.brokers if not broker.is_fenced] if case.cluster is not None else []


def _answers(case: Case, brokers: list[Broker], seconds: float) -> Iterator[Finding]:
    waiting = [(broker, case.client.futures.request(broker.id, ASKED, seconds)) for broker in brokers]
    ranges: dict[Any, list[Broker]] = {}
    for broker, future in waiting:
        try:
            answer: ApiVersionsResponse = future.result(seconds + CALL_S)
        except (KafkaError, TimeoutError) as error:
            yield Finding(
                "listeners", _named(broker), Outcome.WRONG, "does not answer at the address that it advertises", str(error), FROZEN
            )
            continue
        ranges.setdefault(tuple(sorted((row.api_key, row.min_version, row.max_version) for row in answer.api_keys)), []).append(broker)
        yield Finding("listeners", _named(broker), Outcome.FINE, "reached at the advertised address", _versions(answer))
    if len(ranges) > 1:
        evidence = "brokers by release: " + "; ".join(listed(same, lambda broker: str(broker.id)) for same in ranges.values())
        yield Finding("versions", "", Outcome.NOTICE, "the brokers run different releases of Kafka", evidence, "complete the upgrade")


def _versions(answer: ApiVersionsResponse) -> str:
    levels = {row.name: row.max_version_level for row in answer.finalized_features}
    level = f"metadata.version {levels['metadata.version']}, " if "metadata.version" in levels else ""
    return f"{level}{len(answer.api_keys)} requests known"


def _named(broker: Broker) -> str:
    return f"broker {broker.id} at {shown_address((broker.host, broker.port))}"


# -- the controller


def look_at_controller(case: Case, seconds: float) -> Iterator[Finding]:
    """Check that the controllers have a leader that responds, and that its clock agrees with this machine's."""
    before, began = wall_s(), monotonic()
    try:
        quorum = case.admin.describe_quorum(timeout=seconds)
    except UnsupportedVersion:
        yield from _of_zookeeper(case)
        return
    except KafkaError as error:
        way = "see the logs of the controllers: more than half of them have to run and reach each other"
        yield failed("controller", "", "the controllers do not answer", error, way)
        return
    took = monotonic() - began
    late = [_late(voter) for voter in quorum.voters if voter.lag is None or voter.lag > LAGGING]
    evidence = f"epoch {quorum.leader_epoch}, voters {listed([str(voter.id) for voter in quorum.voters])}"
    if late:
        yield Finding("controller", "", Outcome.NOTICE, "controllers lag behind their leader", "; ".join(late), "see their logs")
    yield Finding("controller", f"controller {quorum.leader}", Outcome.FINE, "leads the controllers", evidence)
    yield from _clock(quorum, before + took / 2, took / 2)  # the leader read its clock at some time within `took`


def _late(voter: QuorumReplica) -> str:
    return f"{voter.id} by {'an unknown number of' if voter.lag is None else voter.lag} records"


def _of_zookeeper(case: Case) -> Iterator[Finding]:
    controller = case.cluster.controller if case.cluster is not None else None
    if controller is None:
        way = "see the logs of brokers and ZooKeeper"
        yield Finding("controller", "", Outcome.WRONG, "the cluster has no controller", "the brokers name none", way)
    else:
        yield Finding("controller", f"broker {controller}", Outcome.FINE, "is the controller")


def _clock(quorum: QuorumDescription, ours: float, doubt: float) -> Iterator[Finding]:
    """Compare the clocks. In the leader's own row, `last_fetch_ms` is its current time (`LeaderState.describeReplicaState`)."""
    theirs = next((voter.last_fetch_ms for voter in quorum.voters if voter.id == quorum.leader), None)
    if theirs is None:
        return
    ahead = theirs / 1000 - ours
    evidence = f"it is {abs(ahead):.3f} s {'ahead of' if ahead > 0 else 'behind'} the clock of this machine, within {doubt:.3f} s"
    about = f"controller {quorum.leader}"
    if abs(ahead) - doubt > SKEW_S:
        way = "set both clocks by NTP: tokens, certificates, retention and times of records depend on them"
        yield Finding("clock", about, Outcome.WRONG, "its clock differs from the clock of this machine", evidence, way)
    else:
        yield Finding("clock", about, Outcome.FINE, "its clock is right", evidence)
