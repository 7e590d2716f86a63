"""The web page in headless Chromium: it loads alone, changes while it is open, and can be read and used with a keyboard."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from pykafka4.agent import Client
from pykafka4.agent.account.values import Discards
from pykafka4.agent.http.look import InputState
from pykafka4.agent.message import Reason, Source
from pykafka4.agent.settings.values import HttpSettings
from pykafka4.errors import KafkaTimeoutError
from pykafka4.testing import ModelServer
from tests.agent.http.chromium import INSTALL, Chromium, executable
from tests.agent.http.fake_agent import QUIET, FakeAgent, LivelyAgent, account, partition, serving, status, topic
from tests.agent.service.running import agent as running_agent
from tests.agent.service.running import write_settings
from tests.net.net_helpers import closed_port
from tests.producer.producing import start_all, stop_all

NASTY = 'x"><script>document.title="owned"</script><img src=x onerror="document.title=1">\n&lt;'
READY = "!document.getElementById('main').hasAttribute('aria-busy')"


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    program = executable()
    if program is None:
        pytest.skip(INSTALL)
    with Chromium(program) as chromium:
        yield chromium


@pytest.fixture
def chromium(browser: Chromium) -> Iterator[Chromium]:
    """The browser, with its notes of this test only. Nothing may be in its console at the end."""
    browser.show(1280, 900)
    browser.errors.clear()
    browser.requests.clear()
    yield browser
    browser.open("about:blank")
    assert browser.errors == []


def text(chromium: Chromium, selector: str) -> str:
    return str(chromium.evaluate(f"document.querySelector({selector!r}).innerText"))


def column(chromium: Chromium, table: str, number: int) -> list[str]:
    return list(chromium.evaluate(f"[...document.querySelectorAll('#{table} tbody tr')].map((row) => row.cells[{number}].innerText)"))


def topics_of(names: dict[str, int]) -> dict[str, Any]:
    return {name: topic(100, waiting) for name, waiting in names.items()}


def waiting(names: dict[str, int]) -> dict[str, Any]:
    """An agent with topics and the messages that wait in each."""
    rows = {f"{name}-0": partition(count, 0, 0, 0) for name, count in names.items()}
    return {"account": account(topics_of(names)), "status": status(partitions=rows)}


# ---------------------------------------------------------------- a real agent


def test_the_page_of_a_real_agent_shows_messages_outages_and_its_end(chromium: Chromium, tmp_path: Path) -> None:
    port = closed_port()
    with ModelServer(brokers=1) as server:
        server.create_topic("clicks", 3)
        file = write_settings(tmp_path, server.bootstrap_servers, f"[http]\nport = {port}\n")
        with running_agent(file) as agent, Client(str(agent.socket)) as client:
            chromium.open(f"http://localhost:{port}/")
            chromium.wait_for(READY)
            assert text(chromium, "#headline-text") == "Waiting for messages"
            client.send("clicks", b"a value")
            chromium.wait_for("document.getElementById('balance-accepted').innerText === '1'")
            chromium.wait_for("document.getElementById('headline-text').innerText === 'All messages are delivered'")
            assert column(chromium, "topics", 0) == ["clicks"]
            stop_all(server)
            client.send("clicks", b"waits")
            chromium.wait_for("document.getElementById('headline-text').innerText === 'No broker can be reached'", 30)
            chromium.wait_for("document.querySelector('#outages tbody th')?.innerText.startsWith('cluster')")
            start_all(server)
            chromium.wait_for("document.getElementById('headline-text').innerText === 'All messages are delivered'", 30)
            assert agent.end() == 0
            chromium.wait_for("document.getElementById('banner').innerText.startsWith('No answer since ')")
            with running_agent(file):
                chromium.wait_for("document.getElementById('banner').hidden", 30)
                chromium.wait_for("document.getElementById('balance-accepted').innerText === '0'")
    forgive_lost_connections(chromium)
    paths = {url.partition(f"localhost:{port}")[2] for url in chromium.requests}
    assert paths <= {
        "/",
        "/page.css",
        "/page.js",
        "/base.js",
        "/page/json",
        "/icon.svg",
    }


def forgive_lost_connections(chromium: Chromium) -> None:
    """Chromium itself notes each request that found no agent."""
    chromium.errors[:] = [line for line in chromium.errors if "ERR_CONNECTION" not in line and "ERR_EMPTY_RESPONSE" not in line]


# ---------------------------------------------------------------- what is shown


def test_the_page_asks_only_its_own_agent(chromium: Chromium) -> None:
    with serving(LivelyAgent(started_at=time.time())) as pages:
        chromium.open(pages.url)
        chromium.wait_for(READY)
        assert all(url.startswith(f"{pages.url}/") for url in chromium.requests)


def test_names_are_shown_as_text_whatever_they_contain(chromium: Chromium) -> None:
    lost = topic(1, discards=Discards({Reason.NO_MEM: 3}, 1000, 2000))
    rows = {f"{NASTY}-0": partition(2, state="offline", reason=NASTY, since=4.0)}
    trouble = status(partitions=rows, offline={f"{NASTY}-0": {"reason": NASTY, "since": 4.0}}, state="unreachable", reason=NASTY)
    inputs = (InputState(Source.TCP, NASTY, True, 1, 2, 3, 4),)
    with serving(
        FakeAgent(attrs.evolve(QUIET, account=account({NASTY: lost, "\u202eabc": topic(1)}), status=trouble, inputs=inputs))
    ) as pages:
        chromium.open(pages.url)
        chromium.wait_for(READY)
        assert column(chromium, "topics", 0)[0].startswith('x"><script>document.title="owned"</script><img src=x')
        assert column(chromium, "topics", 0)[1] == r"\u{202e}abc"
        assert chromium.evaluate("document.querySelectorAll('main script, main img').length") == 0
        assert "owned" not in text(chromium, "title")
        chromium.wait_for("document.querySelectorAll('#partitions tbody tr').length === 1")


def test_figures_change_while_the_page_is_open_and_the_focus_stays(chromium: Chromium) -> None:
    agent = FakeAgent(attrs.evolve(QUIET, **waiting({"a": 5, "b": 3})))
    with serving(agent) as pages:
        chromium.open(pages.url)
        chromium.wait_for(READY)
        assert column(chromium, "topics", 0) == ["a", "b"]
        chromium.evaluate("document.getElementById('topics-filter').focus()")
        agent.current = attrs.evolve(QUIET, **waiting({"a": 5, "b": 300_000, "c": 1}))
        chromium.wait_for("document.querySelector('#topics tbody th').innerText === 'b'")
        assert column(chromium, "topics", 0) == ["b", "a", "c"]
        assert "300,000" in column(chromium, "topics", 3)
        assert chromium.evaluate("document.activeElement.id") == "topics-filter"


def test_the_page_says_that_there_are_no_figures_and_goes_on_when_there_are(chromium: Chromium) -> None:
    agent = FakeAgent(KafkaTimeoutError("the client's thread did not respond within 10 s"))
    with serving(agent) as pages:
        chromium.open(pages.url)
        chromium.wait_for("document.getElementById('banner').innerText.includes('did not respond within 10 s')")
        agent.current = QUIET
        chromium.wait_for(READY)
        assert chromium.evaluate("document.getElementById('banner').hidden")
    chromium.errors[:] = [line for line in chromium.errors if "503" not in line]


def test_a_thousand_topics_are_shown_in_parts(chromium: Chromium) -> None:
    names = {f"topic-{number:04d}": 2000 - number for number in range(1200)}
    with serving(FakeAgent(attrs.evolve(QUIET, **waiting(names)))) as pages:
        chromium.open(pages.url)
        chromium.wait_for(READY)
        assert len(column(chromium, "topics", 0)) == 50
        assert text(chromium, "#topics-rest") == "950 more. 200 topics with fewer messages are only in /account/json."
        chromium.evaluate("document.getElementById('topics-all').click()")
        assert len(column(chromium, "topics", 0)) == 1000
        chromium.evaluate("document.getElementById('topics-all').click()")
        set_filter = "const box = document.getElementById('topics-filter'); box.value = 'PIC-099'; box.dispatchEvent(new Event('input'))"
        chromium.evaluate(f"(() => {{ {set_filter} }})()")
        assert column(chromium, "topics", 0) == [f"topic-{number:04d}" for number in range(990, 1000)]


def test_metadata_can_be_refreshed_from_the_page(chromium: Chromium) -> None:
    agent = FakeAgent()
    with serving(agent) as pages:
        chromium.open(pages.url)
        chromium.wait_for(READY)
        chromium.evaluate("document.getElementById('refresh').click()")
        chromium.wait_for("document.getElementById('refresh-said').innerText.startsWith('requested at ')")
        chromium.wait_for("!document.getElementById('refresh').disabled")
    assert agent.refreshes == 1


# ---------------------------------------------------------------- keyboard, screen reader, eyes


def test_columns_are_sorted_with_the_keyboard(chromium: Chromium) -> None:
    with serving(FakeAgent(attrs.evolve(QUIET, **waiting({"b": 5, "a": 3, "c": 4})))) as pages:
        chromium.open(pages.url)
        chromium.wait_for(READY)
        assert column(chromium, "topics", 0) == ["b", "c", "a"]
        for _ in range(20):
            chromium.press("Tab", 9)
            if chromium.evaluate("document.activeElement.innerText") == "Topic":
                break
        else:
            raise AssertionError("Tab does not reach the heads of the columns")
        assert chromium.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        chromium.press("Enter", 13, "\r")
        assert column(chromium, "topics", 0) == ["a", "b", "c"]
        assert chromium.evaluate("document.activeElement.closest('th').getAttribute('aria-sort')") == "ascending"
        chromium.press(" ", 32, " ")
        assert column(chromium, "topics", 0) == ["c", "b", "a"]
        assert chromium.evaluate("document.querySelectorAll('[aria-sort]').length") == 1


UNNAMED = """
(() => { const everything = 'a, button, input, section, table, svg:not([aria-hidden]), [role=group], [tabindex]';
return [...document.querySelectorAll(everything)].filter((element) => {
  const labels = (element.getAttribute('aria-labelledby') ?? '').split(' ')
    .map((id) => document.getElementById(id)?.textContent ?? '').join('');
  return !(element.getAttribute('aria-label') || labels || element.textContent.trim() || element.labels?.length);
}).map((element) => element.outerHTML);
})()
"""
LOW_CONTRAST = """
(() => {
  const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = (colour) => {
    const [r, g, b] = numbers(colour).map((value) => (value /= 255) <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (numbers(colour).length === 3 || numbers(colour)[3] === 1) return colour;
    }
    return 'rgb(255, 255, 255)';
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !element.getClientRects().length) continue;
    const [a, b] = [light(getComputedStyle(element).color), light(ground(element))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) found.push(`${contrast.toFixed(2)} ${walker.currentNode.data.trim().slice(0, 40)}`);
  }
  return found;
})()
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("away_s", [None, 83.0])
def test_everything_has_a_name_and_can_be_read(chromium: Chromium, scheme: str, away_s: float | None) -> None:
    now = time.time()
    chromium.show(1280, 900, scheme)
    with serving(LivelyAgent(started_at=now - 5000, begun=now - 4000, away_since=None if away_s is None else now - away_s)) as pages:
        chromium.open(pages.url)
        chromium.wait_for(READY)
        assert chromium.evaluate(UNNAMED) == []
        assert chromium.evaluate(LOW_CONTRAST) == []
        assert chromium.evaluate("document.documentElement.lang") == "en"
        assert chromium.evaluate("[...document.querySelectorAll('h1')].length") == 1
        assert chromium.evaluate("[...document.querySelectorAll('thead th')].every((cell) => cell.scope === 'col')")
        assert chromium.evaluate("[...document.querySelectorAll('tbody tr')].every((row) => row.cells[0].scope === 'row')")
        assert chromium.evaluate(
            "new Set([...document.querySelectorAll('[id]')].map((e) => e.id)).size === document.querySelectorAll('[id]').length"
        )


def test_dark_is_dark(chromium: Chromium) -> None:
    with serving(FakeAgent()) as pages:
        grounds = []
        for scheme in ("light", "dark"):
            chromium.show(1280, 900, scheme)
            chromium.open(pages.url)
            chromium.wait_for(READY)
            grounds.append(chromium.evaluate("getComputedStyle(document.documentElement).backgroundColor.match(/\\d+/g).map(Number)"))
    light, dark = grounds
    assert min(light) > 200
    assert max(dark) < 50


@pytest.mark.parametrize("width", [320, 390, 820, 1920])
def test_no_width_makes_the_page_scroll_sideways(chromium: Chromium, width: int) -> None:
    chromium.show(width, 800)
    now = time.time()
    with serving(LivelyAgent(started_at=now - 5000, begun=now - 4000, away_since=now - 100)) as pages:
        chromium.open(pages.url)
        chromium.wait_for(READY)
        assert chromium.evaluate("document.documentElement.scrollWidth") <= width


def test_figures_that_change_each_second_are_not_read_aloud(chromium: Chromium) -> None:
    with serving(LivelyAgent(started_at=time.time())) as pages:
        chromium.open(pages.url)
        chromium.wait_for(READY)
        live = chromium.evaluate("[...document.querySelectorAll('[aria-live], [role=status], [role=alert]')].map((element) => element.id)")
        assert set(live) == {"headline-text", "banner", "refresh-said"}


def test_the_page_is_also_found_by_an_allowed_name(chromium: Chromium) -> None:
    with serving(FakeAgent(), HttpSettings(port=0)) as pages:
        chromium.open(f"http://localhost:{pages.port}/")
        chromium.wait_for(READY)
