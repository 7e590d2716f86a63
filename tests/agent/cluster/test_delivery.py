"""Messages of local programs reach a real cluster once, as a foreign consumer sees them."""

from __future__ import annotations

import pytest

from integration.agent.reading import read_topic
from integration.agent.sending import Sender, send, senders, value_of
from integration.cluster import Cluster
from integration.waiting import until
from tests.agent.cluster.conftest import AgentOf

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

LONG_S = 120.0
PROCESSES = 16


@pytest.mark.parametrize("each", [2_000, pytest.param(20_000, marks=pytest.mark.lengthy)])
def test_messages_of_16_processes_arrive_once_while_a_broker_is_killed(cluster: Cluster, topic: str, agent: AgentOf, each: int) -> None:
    cluster.create_topic(topic, 6)
    running = agent(topics={"default": {"batching": "combined", "linger_ms": 100}})
    with senders(Sender(running.datagram, [topic], each, name=f"s{n}") for n in range(PROCESSES)) as programs:
        until(lambda: sum(end for _, end in cluster.offsets(topic).values()) > each, LONG_S, "the first messages")
        victim = cluster.leader(topic, 0)
        cluster.kill(victim)
        sent = [program.result()["sent"] for program in programs]
    assert sent == [each] * PROCESSES
    cluster.start(victim)
    account = running.settled(PROCESSES * each)
    assert (account.acknowledged, account.discards) == (PROCESSES * each, {})
    assert running.end(LONG_S) == 0, running.said()
    found = sorted(row.value or b"" for row in read_topic(cluster, topic))
    assert found == sorted(value_of(n, f"s{sender}") for sender in range(PROCESSES) for n in range(each))


@pytest.mark.secured
def test_messages_arrive_with_the_security_that_the_brokers_demand(cluster: Cluster, topic: str, agent: AgentOf) -> None:
    cluster.create_topic(topic, 3)
    running = agent(topics={"default": {"linger_ms": 20}})
    assert send(running.datagram, [topic], 2_000)["sent"] == 2_000
    assert running.settled(2_000).acknowledged == 2_000
    assert {row.value for row in read_topic(cluster, topic)} == {value_of(n) for n in range(2_000)}
    for secret in ("sasl_password", "ssl_keyfile_password"):
        if secret in cluster.client:
            assert cluster.client[secret] not in running.said() + running.page("/page/json") + running.page("/account/json")
