"""The pages over HTTP: Dory's fields and types, the account, Prometheus; who is refused, and what is said while there are no figures."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

import attrs
import pytest
from prometheus_client.parser import text_string_to_metric_families

from pykafka4.agent.account.values import Account, Discards, TopicAccount
from pykafka4.agent.http import guarding
from pykafka4.agent.http.guarding import MOST_CONNECTIONS
from pykafka4.agent.http.headline import headline
from pykafka4.agent.http.look import AgentLook
from pykafka4.agent.http.metrics import exposition
from pykafka4.agent.http.observer import MOST_WAITING, Observer
from pykafka4.agent.http.troubles import troubles
from pykafka4.agent.message import Reason
from pykafka4.agent.settings.values import HttpSettings
from pykafka4.errors import KafkaTimeoutError
from pykafka4.pages.outages import Outages
from tests.agent.http.fake_agent import REPORT, FakeAgent, Served, account, broker, partition, serving, status, topic
from tests.net.net_helpers import until

NASTY = 'a"b<script>alert(1)</script>\n\\'
AT = 1_000_000.0
ROWS = {
    "clicks": topic(90, 10, 0, Discards({Reason.RATE_LIMIT: 7, Reason.NO_MEM: 1}, 1000, 2000)),
    NASTY: topic(5),
}
PARTITIONS = {
    "clicks-0": partition(8, 3, 0, 2, oldest_age=4.5),
    "clicks-1": partition(1, 1),
    "clicks (no partition yet)": partition(6, 0, 6),
    f"{NASTY}-0": partition(0, 0, 0, 3),
}
LOOK = AgentLook(AT, account(ROWS, {Reason.MALFORMED: 2}), status(partitions=PARTITIONS))


@attrs.frozen
class Answer:
    status: int
    headers: Mapping[str, str]
    body: str

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def ask(served: Served, path: str, method: str = "GET", headers: Mapping[str, str] | None = None) -> Answer:
    """One request on a connection of its own. A header None is left out."""
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=20)
    try:
        connection.request(method, path, headers=dict(headers or {}))
        response = connection.getresponse()
        return Answer(response.status, dict(response.getheaders()), response.read().decode())
    finally:
        connection.close()


@pytest.fixture(scope="module")
def agent() -> FakeAgent:
    return FakeAgent(LOOK, counts={"AckOk": 95, "MsgCreate": 120}, unfinished=REPORT, finished=None)


@pytest.fixture(scope="module")
def served(agent: FakeAgent) -> Iterator[Served]:
    with serving(agent, HttpSettings(port=0, allowed_hosts=("agent.example",))) as pages:
        yield pages


# ---------------------------------------------------------------- Dory's fields

HEAD = {"pid": int, "version": str, "since": int, "now": int}
REPORT_FIELDS = {
    "id": int,
    "start_time": int,
    "malformed_msg_count": int,
    "unix_stream_unclean_disconnect_count": int,
    "tcp_unclean_disconnect_count": int,
    "unsupported_api_key_msg_count": int,
    "unsupported_version_msg_count": int,
    "bad_topic_msg_count": int,
    "recent_malformed": [str],
    "unix_stream_unclean_disconnect": [str],
    "tcp_unclean_disconnect": [str],
    "unsupported_msg_version": [{"version": int, "count": int}],
    "recent_bad_topic": [str],
    "recent_too_long_msg": [str],
    "rate_limit_discard": [{"topic": str, "count": int}],
    "discard_topic": [{"topic": str, "min_timestamp": int, "max_timestamp": int, "count": int}],
    "possible_duplicate_topic": [{"topic": str, "min_timestamp": int, "max_timestamp": int, "count": int}],
}
PAGES = {
    "server_info": HEAD,
    "counters": {**HEAD, "counters": [{"location": str, "name": str, "value": int}]},
    "discards": {**HEAD, "interval": int, "unfinished_report": REPORT_FIELDS},
    "queues": {**HEAD, "sending": [{"topic": str, "batch": int, "send_wait": int, "ack_wait": int}], "new": int},
    "metadata_fetch_time": {**HEAD, "last_updated": int, "last_modified": int},
}


def shape(value: Any) -> Any:
    """The types in a value, in the order of its fields."""
    if isinstance(value, dict):
        return {name: shape(item) for name, item in value.items()}
    return [shape(value[0])] if isinstance(value, list) else type(value)


@pytest.mark.parametrize("page", PAGES)
def test_fields_and_types_are_those_of_the_ancestor(served: Served, page: str) -> None:
    answer = ask(served, f"/{page}/json")
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "application/json; charset=utf-8"
    assert shape(answer.json) == PAGES[page]
    assert list(answer.json) == list(PAGES[page])


def test_the_report_has_the_figures_and_the_tcp_list_is_that_of_tcp(served: Served) -> None:
    report = ask(served, "/discards/json").json["unfinished_report"]
    assert report["tcp_unclean_disconnect"] == ["dGNw"]
    assert report["unix_stream_unclean_disconnect"] == ["dW5peA=="]
    counts = [report[name] for name in REPORT_FIELDS if name.endswith("_count")]
    assert counts == [2, 1, 3, 4, 5, 2]
    assert report["unsupported_msg_version"] == [{"version": 1, "count": 3}, {"version": 7, "count": 2}]
    assert report["rate_limit_discard"] == [{"topic": "clicks", "count": 6}]
    assert report["discard_topic"] == [{"topic": "clicks", "min_timestamp": 1000, "max_timestamp": 2000, "count": 7}]


def test_the_report_of_the_last_interval_appears_when_there_is_one(served: Served, agent: FakeAgent) -> None:
    agent.finished = attrs.evolve(REPORT, number=6)
    try:
        found = ask(served, "/discards/json").json
    finally:
        agent.finished = None
    assert (found["finished_report"]["id"], found["unfinished_report"]["id"], found["interval"]) == (6, 7, 600)


def test_queues_tell_the_states_of_messages_apart(served: Served) -> None:
    found = ask(served, "/queues/json").json
    rows = {row["topic"]: row for row in found["sending"]}
    assert rows["clicks"] == {"topic": "clicks", "batch": 4, "send_wait": 5, "ack_wait": 2}
    assert rows[NASTY]["ack_wait"] == 3
    assert found["new"] == 6


def test_metadata_times_are_in_milliseconds(served: Served) -> None:
    found = ask(served, "/metadata_fetch_time/json").json
    assert (found["now"], found["last_updated"], found["last_modified"]) == (1_000_000_000, 999_988_000, 999_940_000)
    assert found["since"] == 999_000


@pytest.mark.parametrize("page", PAGES)
def test_plain_text_has_a_line_for_each_figure_and_no_line_of_a_topic(served: Served, page: str) -> None:
    answer = ask(served, f"/{page}/plain")
    assert answer.status == 200
    assert answer.headers["Content-Type"].startswith("text/plain")
    assert answer.body.startswith("pid: ")
    assert all(line != "\\" for line in answer.body.splitlines()), "the newline in the topic's name began a line"


def test_plain_text_is_as_the_ancestor_writes_it(served: Served) -> None:
    assert "\npykafka4.agent.AckOk=95\n" in ask(served, "/counters/plain").body
    lines = ask(served, "/queues/plain").body.splitlines()
    assert "batch:          4  send_wait:          5  ack_wait:          2  topic: 6[clicks]" in lines
    assert "        20 total (all states: new + batch + send_wait + ack_wait)" in lines
    discards = ask(served, "/discards/plain").body
    assert "    discard topic: 6[clicks] begin [1000] end [2000] count 7\n" in discards
    assert "    recent TCP unclean disconnect msg: 4[dGNw]\n" in discards


def test_times_that_are_not_known_are_zero() -> None:
    with serving(FakeAgent(attrs.evolve(LOOK, status=status(metadata={"age": None, "changed": None})))) as pages:
        found = ask(pages, "/metadata_fetch_time/json").json
    assert (found["last_updated"], found["last_modified"]) == (0, 0)


# ---------------------------------------------------------------- the agent's own pages


def test_the_account_has_reasons_per_topic_and_balances(served: Served) -> None:
    found = ask(served, "/account/json").json
    row = found["topics"]["clicks"]
    assert row["discards"] == {"by_reason": {"RATE_LIMIT": 7, "NO_MEM": 1}, "first_timestamp": 1000, "last_timestamp": 2000}
    for part in (found["total"], *found["topics"].values()):
        assert part["accepted"] == part["acknowledged"] + part["queued"] + part["spooled"] + part["discarded"]
    assert found["refused"] == {"MALFORMED": 2}
    assert NASTY in found["topics"]


def test_prometheus_reads_the_metrics(served: Served) -> None:
    answer = ask(served, "/metrics")
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    samples = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.body)
        for sample in family.samples
    }
    assert samples["pykafka4_agent_accepted_total", ("topic", "clicks")] == 108
    assert samples["pykafka4_agent_accepted_total", ("topic", NASTY)] == 5
    assert samples["pykafka4_agent_discarded_total", ("reason", "RATE_LIMIT"), ("topic", "clicks")] == 7
    assert samples["pykafka4_agent_queue", ("state", "new")] == 6
    assert samples["pykafka4_agent_oldest_message_seconds",] == 4.5
    assert samples["pykafka4_agent_dory_total", ("name", "AckOk")] == 95


def accepted(rows: Mapping[str, TopicAccount], labelled: set[str] | None = None, **more: Any) -> dict[str, float]:
    """The counters of accepted messages that Prometheus reads."""
    look = attrs.evolve(LOOK, account=account(rows), status=status(**more))
    body = exposition(look, {}, "0", 0.0, set() if labelled is None else labelled).decode()
    samples = [sample for family in text_string_to_metric_families(body) for sample in family.samples]
    return {sample.labels["topic"]: sample.value for sample in samples if sample.name == "pykafka4_agent_accepted_total"}


def test_metrics_have_a_bounded_number_of_topics_and_lose_no_message() -> None:
    values = accepted({f"t{number}": topic(number) for number in range(1500)})
    assert len(values) == 1001
    assert sum(values.values()) == sum(range(1500))


@pytest.mark.parametrize(
    "later",
    [
        {**{f"t{number}": topic(5) for number in range(1500)}, "t1400": topic(9000)},
        # The producer's row of an idle topic comes first.
        {"t1400": topic(500), **{f"t{number}": topic(5) for number in range(1500) if number != 1400}},
    ],
    ids=["a topic overtakes another", "a topic is idle"],
)
def test_no_counter_falls_when_the_order_of_topics_changes(later: Mapping[str, TopicAccount]) -> None:
    labelled: set[str] = set()
    before = accepted({**{f"t{number}": topic(5) for number in range(1500)}, "t1400": topic(500)}, labelled)
    after = accepted(later, labelled)
    assert [name for name in before if after.get(name, 0) < before[name]] == []


def test_the_counter_of_other_topics_does_not_fall_when_a_topic_is_forgotten() -> None:
    rows, labelled = {f"t{number}": topic(5) for number in range(1500)}, set[str]()
    before = accepted(rows, labelled)
    del rows["t0"]
    assert accepted(rows, labelled)[""] == before[""]


@pytest.mark.parametrize("reason", [Reason.BAD_TOPIC, Reason.TOPIC_AUTOCREATE_FAIL])
def test_invented_names_make_no_series(reason: Reason) -> None:
    bad = {f"bad{number}": topic(0, discards=Discards({reason: 2})) for number in range(3)}
    parked = {"bad0 (no partition yet)": partition(1, 0, 1), "new (no partition yet)": partition(1, 0, 1)}
    assert accepted({**bad, "new": topic(0, 1), "clicks": topic(5)}, partitions=parked) == {"clicks": 5, "": 6}


def test_topics_that_brokers_do_not_know_are_no_offline_partitions() -> None:
    rows = {"new (no partition yet)": partition(3, 0, 3, state="offline", reason="unknown", since=2.0)}
    gone = {name: {"since": 2.0, "reason": "no leader"} for name in ("clicks-0", "new (no partition yet)")}
    body = exposition(attrs.evolve(LOOK, status=status(partitions=rows, offline=gone)), {}, "0", 0.0, set()).decode()
    assert "pykafka4_agent_offline_partitions 1.0" in body


def test_the_page_is_bounded_and_counts_what_it_leaves_out() -> None:
    rows = {f"t{number}": topic(number, discards=Discards({Reason.NO_MEM: 1})) for number in range(3000)}
    offline = {f"t{number}-0": {"since": 5.0, "reason": "no leader"} for number in range(3000)}
    look = AgentLook(AT, account(rows), status(offline=offline, brokers=[broker(number, "refused") for number in range(1000)]))
    with serving(FakeAgent(look)) as pages:
        found = ask(pages, "/page/json").json
    assert (len(found["topics"]["rows"]), found["topics"]["count"]) == (1000, 3000)
    assert (len(found["discards"]["rows"]), found["discards"]["count"]) == (200, 3000)
    assert (len(found["partitions"]["offline"]), found["partitions"]["offline_count"]) == (100, 3000)
    assert (len(found["brokers"]["rows"]), found["brokers"]["count"]) == (200, 1000)


def test_readers_share_a_look(agent: FakeAgent, served: Served) -> None:
    before = agent.looks
    begun = time.monotonic()
    for _ in range(30):
        ask(served, "/page/json")
    assert agent.looks - before <= 2 + 2 * (time.monotonic() - begun)


def test_the_connections_to_a_broker_are_one_row_and_an_old_error_of_one_of_them_is_no_outage() -> None:
    """Otherwise Prometheus would read a sample twice, and the page would say that a broker is away while messages go to it."""
    lost = {**broker(3, "the broker closed the connection"), "state": "idle", "failures": 0}
    links = [broker(1), {**broker(1, "no response"), "state": "idle"}, broker(2, "refused"), lost]
    look = AgentLook(AT, account(ROWS), status(brokers=links))
    up = [line for line in exposition(look, {}, "0", 0.0, set()).decode().splitlines() if line.startswith("pykafka4_agent_broker_up{")]
    assert [line.rpartition(" ")[2] for line in up] == ["1.0", "0.0", "1.0"]
    assert list(troubles(look)) == ["broker 2"]
    assert headline(look, Outages(), 0.0).text == "Broker 2 is away"
    with serving(FakeAgent(look)) as pages:
        found = ask(pages, "/page/json").json["brokers"]
    assert [(row["node"], row["error"], row["in_flight"]) for row in found["rows"]] == [(1, None, 1), (2, "refused", 0), (3, None, 0)]


def test_a_look_that_takes_long_is_shared_for_longer() -> None:
    now = 100.0

    class Slow(FakeAgent):
        def look(self) -> AgentLook:
            nonlocal now
            now += 0.2
            return super().look()

    agent = Slow()
    observer = Observer(agent, lambda: now)
    looks = []
    for pause in (0.0, 1.7, 0.2):
        now += pause
        observer.page()
        looks.append(agent.looks)
    assert looks == [1, 1, 2]


# ---------------------------------------------------------------- who is answered


@pytest.mark.parametrize(
    ("host", "origin", "expected"),
    [
        ("localhost", None, 200),
        ("LOCALHOST:9090", None, 200),
        ("127.0.0.1:1", None, 200),
        ("[::1]:9090", None, 200),
        ("agent.example", None, 200),
        ("agent.example.:80", None, 200),
        ("evil.example", None, 403),
        ("localhost.evil.example", None, 403),
        ("127.0.0.1.evil.example", None, 403),
        ("127.0.0.2", None, 403),
        ("[::2]", None, 403),
        ("", None, 403),
        ("localhost:9090", "http://localhost:9090", 200),
        ("agent.example", "https://agent.example", 200),
        ("localhost:9090", "http://localhost:9091", 403),
        ("localhost:9090", "http://evil.example", 403),
        ("localhost:9090", "http://localhost:9090.evil.example", 403),
        ("localhost:9090", "null", 403),
        ("evil.example", "http://evil.example", 403),
    ],
)
@pytest.mark.parametrize(("method", "path"), [("GET", "/queues/json"), ("POST", "/metadata_update")])
def test_host_and_origin_decide(host: str, origin: str | None, expected: int, method: str, path: str) -> None:
    agent = FakeAgent(LOOK)
    with serving(agent, HttpSettings(port=0, allowed_hosts=("agent.example",))) as pages:
        answer = ask(pages, path, method, {"Host": host, **({"Origin": origin} if origin is not None else {})})
    assert answer.status == expected, answer.body
    assert agent.refreshes == (1 if (method, expected) == ("POST", 200) else 0)
    if expected == 403:
        assert answer.body.startswith("403: ")
        assert "pid" not in answer.body


@pytest.mark.parametrize(
    ("site", "destination", "expected"),
    [
        ("same-origin", "empty", 200),
        ("none", "document", 200),
        ("cross-site", "document", 200),  # a link
        ("cross-site", "image", 403),
        ("cross-site", "iframe", 403),
        ("same-site", "image", 403),  # another port of localhost
    ],
)
def test_a_page_of_another_site_does_not_mark_a_report_as_read(site: str, destination: str, expected: int, served: Served) -> None:
    """The request of an image has no Origin header."""
    answer = ask(served, "/discards/json", headers={"Sec-Fetch-Site": site, "Sec-Fetch-Dest": destination})
    assert answer.status == expected
    assert ("403: pages of other sites" in answer.body) == (expected == 403)


def test_two_host_headers_are_refused(served: Served) -> None:
    answer = raw(served, b"GET /queues/json HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
    assert answer.split(b" ")[1] in (b"403", b"400")


def raw(served: Served, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", served.port), timeout=20) as connection:
        connection.sendall(request)
        found = b""
        while part := connection.recv(65536):
            found += part
        return found


@pytest.mark.parametrize(("method", "path"), [("GET", "/"), ("GET", "/page/json"), ("GET", "/health"), ("POST", "/metadata_update")])
def test_each_request_gives_its_connection_time_again(monkeypatch: pytest.MonkeyPatch, method: str, path: str) -> None:
    monkeypatch.setattr(guarding, "SWEEP_S", 0.01)
    now = 0.0
    with serving(FakeAgent(LOOK), monotonic=lambda: now) as pages:
        idle, used = (http.client.HTTPConnection("127.0.0.1", pages.port, timeout=20) for _ in range(2))

        def answer(connection: http.client.HTTPConnection, method: str, path: str) -> int:
            connection.request(method, path)
            response = connection.getresponse()
            response.read()
            return response.status

        with contextlib.closing(idle), contextlib.closing(used):
            assert answer(idle, "GET", "/health") == answer(used, "GET", "/health") == 200
            now += guarding.IDLE_S - 1
            assert answer(used, method, path) == 200
            now += 1
            with contextlib.suppress(ConnectionResetError):
                assert idle.sock.recv(1) == b""
            assert answer(used, "GET", "/health") == 200


@pytest.mark.parametrize("path", ["/metadata_update", "/sys/metadata_update"])
def test_metadata_is_refreshed_by_post_only(path: str) -> None:
    agent = FakeAgent(LOOK)
    with serving(agent) as pages:
        answer = ask(pages, path, "POST")
        assert (answer.status, answer.body[:26]) == (200, "Metadata update initiated ")
        assert ask(pages, path).status == 405
    assert agent.refreshes == 1


def test_a_refresh_of_metadata_begins_once_the_last_one_has_ended() -> None:
    released = threading.Event()

    class Slow(FakeAgent):
        def refresh_metadata(self) -> None:
            super().refresh_metadata()
            assert released.wait(20)

    agent = Slow(LOOK)
    with serving(agent) as pages:
        for _ in range(3):
            assert ask(pages, "/metadata_update", "POST").status == 200
        until(lambda: agent.refreshes == 1, "the refresh to begin")
        released.set()
        until(lambda: ask(pages, "/metadata_update", "POST").status == 200 and agent.refreshes > 1, "another refresh")


@pytest.mark.parametrize(
    ("method", "path", "expected", "words"),
    [
        ("GET", "/nope", 404, "no such page"),
        ("GET", "/page/../page.js", 404, "no such page"),
        ("GET", "/server_info/xml", 404, "no such page"),
        ("GET", "/msg_debug/add_all_topics", 404, "no such page"),
        ("POST", "/nope", 404, "try POST /metadata_update"),
        ("POST", "/queues/json", 405, "use GET"),
        ("PUT", "/", 405, "PUT is not possible here; use GET"),
        ("DELETE", "/metadata_update", 405, "use POST"),
        ("OPTIONS", "/metadata_update", 405, "use POST"),
    ],
)
def test_other_paths_and_methods_say_what_there_is(served: Served, method: str, path: str, expected: int, words: str) -> None:
    answer = ask(served, path, method)
    assert answer.status == expected
    assert words in answer.body


@pytest.mark.parametrize("path", ["/", "/page.css", "/page.js", "/page/json", "/health", "/metrics", "/queues/plain", "/nope"])
def test_every_answer_has_the_headers_that_protect_it(served: Served, path: str) -> None:
    headers = ask(served, path).headers
    assert headers["Content-Security-Policy"].startswith("default-src 'self';")
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Cache-Control"] == ("no-cache" if path in ("/", "/page.css", "/page.js") else "no-store")


@pytest.mark.parametrize("path", ["/", "/page/json", "/queues/json", "/metrics", "/health"])
def test_head_has_the_headers_without_the_body(served: Served, path: str) -> None:
    answer = ask(served, path, "HEAD")
    assert (answer.status, answer.body) == (200, "")
    assert int(answer.headers["Content-Length"]) > 0


# ---------------------------------------------------------------- when figures lack


def test_health_says_why_the_agent_takes_nothing() -> None:
    agent = FakeAgent(LOOK, not_ready="the inputs are not open")
    with serving(agent) as pages:
        answer = ask(pages, "/health")
        assert (answer.status, answer.body) == (503, "503: the inputs are not open\n")
        agent.not_ready = None
        assert ask(pages, "/health").status == 200


def test_a_stuck_producer_is_named_and_the_other_pages_answer() -> None:
    agent = FakeAgent(KafkaTimeoutError("the producer's stats: the client's thread did not respond within 10 s"))
    with serving(agent) as pages:
        answer = ask(pages, "/page/json")
        assert (answer.status, "did not respond within 10 s" in answer.body) == (503, True)
        assert ask(pages, "/").status == ask(pages, "/health").status == ask(pages, "/server_info/json").status == 200
        for _ in range(MOST_WAITING):
            assert "did not respond within 10 s" in ask(pages, "/page/json").body
        agent.current = LOOK
        assert ask(pages, "/page/json").status == 200


def test_a_time_out_of_the_agent_s_loop_names_no_other_time() -> None:
    with serving(FakeAgent(TimeoutError())) as pages:
        answer = ask(pages, "/page/json")
        assert (answer.status, answer.body) == (503, "503: no figures in time, because the agent is busy; ask again\n")


def test_a_bug_in_a_page_is_an_answer_and_the_next_request_has_its_own(caplog: pytest.LogCaptureFixture) -> None:
    agent = FakeAgent(ZeroDivisionError("a bug"))
    with serving(agent) as pages:
        answer = ask(pages, "/page/json")
        assert (answer.status, answer.body) == (500, "500: ZeroDivisionError; the agent's log has the traceback\n")
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        agent.current = LOOK
        assert ask(pages, "/page/json").status == 200
    assert "pages: GET /page/json" in caplog.text
    assert caplog.text.count("pages: no figures") <= 1


def test_nothing_of_the_pages_runs_after_their_end() -> None:
    before = set(threading.enumerate())
    with serving(FakeAgent(LOOK)) as pages:
        assert ask(pages, "/page/json").status == 200
    for thread in set(threading.enumerate()) - before:
        thread.join(20)
        assert not thread.is_alive(), thread.name
    assert not asyncio.all_tasks(pages.loop)


def test_a_port_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with (
            pytest.raises(OSError, match=f"the pages cannot listen on 127.0.0.1:{port}: Address already in use; set another"),
            serving(FakeAgent(), HttpSettings(port=port)),
        ):
            pass


# ---------------------------------------------------------------- clients that are slow, or many


def test_too_many_connections_are_told_so_and_the_others_go_on(served: Served) -> None:
    held = [socket.create_connection(("127.0.0.1", served.port), timeout=20) for _ in range(MOST_CONNECTIONS)]
    try:
        answer = b""
        with socket.create_connection(("127.0.0.1", served.port), timeout=20) as late:
            while part := late.recv(4096):
                answer += part
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert answer.endswith(b"503: too many connections\n")
        held[0].sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert held[0].recv(4096).startswith(b"HTTP/1.1 200 ")
    finally:
        for connection in held:
            connection.close()
    deadline = time.monotonic() + 10
    while ask_quietly(served) != 200:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def ask_quietly(served: Served) -> int:
    try:
        return ask(served, "/health").status
    except OSError:
        return 0


@pytest.mark.parametrize(
    "request_head",
    [
        b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 20_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"".join(b"X%d: 1\r\n" % number for number in range(500)) + b"\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    ],
    ids=["long line", "long header", "many headers", "TLS"],
)
def test_what_is_no_sensible_request_is_refused_without_a_line_in_the_log(
    served: Served, request_head: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_connection(("127.0.0.1", served.port), timeout=20) as connection:
        connection.sendall(request_head)
        assert connection.recv(4096).split(b" ")[1][:1] == b"4"
    assert ask(served, "/health").status == 200
    assert caplog.text == ""


def test_names_without_a_row_are_counted_together() -> None:
    others = TopicAccount(7, 5, 0, 0, Discards({Reason.BAD_TOPIC: 2}))
    total = TopicAccount(12, 10, 0, 0, Discards({Reason.BAD_TOPIC: 2}))
    look = attrs.evolve(LOOK, account=Account(total, {"clicks": topic(5)}, others))
    with serving(FakeAgent(look)) as pages:
        found = ask(pages, "/page/json").json
        assert found["discards"]["rows"] == [{"topic": "", "reason": "BAD_TOPIC", "count": 2, "first_ms": None, "last_ms": None}]
        assert ask(pages, "/account/json").json["other_topics"]["accepted"] == 7
