"""What the loop thread logs is handled on another thread: in order, as of its origin, bounded, and never in the way of the loop."""

from __future__ import annotations

import logging
import os
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from pykafka4 import Client
from pykafka4.logs import Entry, Subject, get_log
from pykafka4.net import logs
from pykafka4.net.loop import Loop
from pykafka4.records import TopicPartition
from tests.inspection import inspect, thread_of
from tests.net.interrupts import PACKAGE, interrupts
from tests.net.net_helpers import SECONDS, closed_port, python, until

NAME = "pykafka4.of-a-test"
log = get_log(NAME)


class Notes(logging.Handler):
    """Keeps the records, and runs `act` for each."""

    def __init__(self, act: Callable[[logging.LogRecord], object] = lambda record: None) -> None:
        super().__init__()
        self.act, self.records, self.threads = act, list[logging.LogRecord](), list[str]()

    def emit(self, record: logging.LogRecord) -> None:
        self.threads.append(threading.current_thread().name)
        self.records.append(record)
        self.act(record)

    @property
    def messages(self) -> list[str]:
        return [record.getMessage() for record in self.records]


@pytest.fixture
def client() -> Iterator[Client]:
    client = Client(bootstrap_servers=f"127.0.0.1:{closed_port()}", reconnect_backoff_ms=600_000, reconnect_backoff_max_ms=600_000)
    until(lambda: "refused" in inspect(client).engine.network.why_unreachable())
    logs.current().flush()
    yield client
    client.close(SECONDS)


@pytest.fixture
def loop(client: Client) -> Loop:
    return inspect(client).loop


@pytest.fixture
def notes() -> Iterator[Notes]:
    yield from _installed(Notes())


def _installed(notes: Notes) -> Iterator[Notes]:
    logger = logging.getLogger(NAME)
    logs.current().flush(SECONDS)
    until(lambda: running() <= {logs.current()._thread})  # a thread that has ended handles what tests before left
    logger.addHandler(notes)
    logger.setLevel(logging.INFO)
    yield notes
    logs.current().flush(SECONDS)  # what a test leaves behind would reach the next one's handler
    logger.removeHandler(notes)
    logger.setLevel(logging.NOTSET)


def running() -> set[threading.Thread | None]:
    return {thread for thread in threading.enumerate() if thread.name == "pykafka4-log"}


def on_loop(loop: Loop, act: Callable[[], object]) -> None:
    loop.ask(lambda now: act() and None, SECONDS)


def test_records_of_the_loop_are_handled_in_order_on_another_thread_as_of_their_origin(loop: Loop, notes: Notes) -> None:
    before = time.time()
    on_loop(loop, lambda: [log.info("number %d", n) for n in range(100)])
    after = time.time()
    assert logs.current().flush(SECONDS)
    assert notes.messages == [f"number {n}" for n in range(100)]
    assert set(notes.threads) == {"pykafka4-log"}
    record = notes.records[0]
    assert (record.threadName, record.thread) == ("pykafka4-loop", thread_of(loop).ident)
    assert before <= record.created <= after
    assert record.msecs == int(record.created * 1000) % 1000
    assert (record.name, record.levelname, record.filename) == (NAME, "INFO", "test_logs.py")
    assert record.funcName == "<listcomp>"


def test_the_time_of_a_record_is_when_it_was_logged(loop: Loop, notes: Notes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "time", SimpleNamespace(time=lambda: 1234.5678))
    on_loop(loop, lambda: log.info("it"))
    assert logs.current().flush(SECONDS)
    (record,) = notes.records
    assert (record.created, record.msecs) == (1234.5678, 567.0)
    assert record.relativeCreated < 0, "before this process began"


def test_records_of_other_threads_are_handled_at_once(client: Client, notes: Notes) -> None:
    log.warning("here")
    assert notes.threads == [threading.current_thread().name]


def test_an_exception_is_logged_with_its_traceback(loop: Loop, notes: Notes) -> None:
    def fail() -> None:
        try:
            raise ValueError("the cause")
        except ValueError:
            log.exception("it failed")

    on_loop(loop, fail)
    assert logs.current().flush(SECONDS)
    (record,) = notes.records
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == "the cause"
    assert "raise ValueError" in logging.Formatter().format(record)


def test_what_the_level_leaves_out_is_not_put_aside(loop: Loop, notes: Notes) -> None:
    logging.getLogger(NAME).setLevel(logging.WARNING)
    on_loop(loop, lambda: log.info("quiet"))
    logging.disable(logging.WARNING)
    try:
        on_loop(loop, lambda: log.warning("disabled"))
    finally:
        logging.disable(logging.NOTSET)
    on_loop(loop, lambda: log.warning("loud"))
    assert logs.current().flush(SECONDS)
    assert notes.messages == ["loud"]


def test_the_loop_goes_on_while_a_handler_blocks_and_drops_are_counted(loop: Loop, notes: Notes) -> None:
    entered, release = threading.Event(), threading.Event()
    notes.act = lambda record: (entered.set(), release.wait(SECONDS)) if not release.is_set() else None
    try:
        on_loop(loop, lambda: log.info("first"))
        assert entered.wait(SECONDS)
        on_loop(loop, lambda: [log.info("%d", n) for n in range(logs.MOST_WAITING + 7)])
        assert loop.ask(lambda now: 7, SECONDS) == 7
        assert not logs.current().flush(0.01), "a handler that blocks is not waited for longer than asked"
    finally:
        release.set()
    until(lambda: len(notes.records) == logs.MOST_WAITING + 1)
    assert notes.messages == ["first", *map(str, range(logs.MOST_WAITING))]


def test_the_number_of_dropped_records_is_logged(loop: Loop, notes: Notes, caplog: pytest.LogCaptureFixture) -> None:
    entered, release = threading.Event(), threading.Event()
    notes.act = lambda record: (entered.set(), release.wait(SECONDS)) if not release.is_set() else None
    try:
        on_loop(loop, lambda: log.info("first"))
        assert entered.wait(SECONDS)
        on_loop(loop, lambda: [log.info("%d", n) for n in range(logs.MOST_WAITING + 7)])
    finally:
        release.set()
    until(lambda: "dropped log records: 7" in caplog.text)


def test_a_handler_that_raises_keeps_no_other_record_from_being_handled(
    loop: Loop, notes: Notes, capsys: pytest.CaptureFixture[str]
) -> None:
    def act(record: logging.LogRecord) -> None:
        if record.getMessage() == "bad":
            raise SystemExit("a handler broke")

    notes.act = act
    on_loop(loop, lambda: (log.info("bad"), log.info("good")))
    assert logs.current().flush(SECONDS)
    assert notes.messages == ["bad", "good"]
    assert "a handler broke" in capsys.readouterr().err


def test_a_handler_that_ends_its_thread_at_the_count_of_drops_keeps_no_other_record_from_being_handled(
    loop: Loop, notes: Notes, capsys: pytest.CaptureFixture[str]
) -> None:
    entered, release = threading.Event(), threading.Event()
    notes.act = lambda record: (entered.set(), release.wait(SECONDS))

    def end(record: logging.LogRecord) -> None:
        raise SystemExit("a handler broke")

    dropped = Notes(end)
    logging.getLogger("pykafka4.log").addHandler(dropped)
    try:
        on_loop(loop, lambda: log.info("first"))
        assert entered.wait(SECONDS)
        on_loop(loop, lambda: [log.info("%d", n) for n in range(logs.MOST_WAITING + 1)])
        release.set()
        until(lambda: dropped.records)
        assert logs.current().flush(SECONDS)
        on_loop(loop, lambda: log.info("after"))
        assert logs.current().flush(SECONDS)
    finally:
        release.set()
        logging.getLogger("pykafka4.log").removeHandler(dropped)
    assert notes.messages[-1] == "after"
    assert "a handler broke" in capsys.readouterr().err


def test_ctrl_c_while_the_thread_starts_or_ends_keeps_no_later_record_from_being_handled(notes: Notes) -> None:
    thread = logs.LogThread()

    def use(user: str) -> None:
        try:
            thread.retain(user)
        finally:
            thread.release(user)

    def logged(user: str) -> None:
        thread.retain(user)
        thread.enter()
        try:
            assert thread.divert(Entry(logging.getLogger(NAME), logging.INFO, user, (), None, __file__, 0, "logged"))
        finally:
            thread.leave()
        assert thread.flush(SECONDS), f"interrupted at {place}: nothing is handled any more"
        thread.release(user)

    count, before = 0, running()
    for place in interrupts(lambda: use("interrupted"), within=(PACKAGE,)):  # Thread.start itself does not survive an interrupt
        count += 1
        logged(f"after {place}")
    assert len(notes.messages) == count >= 5
    assert not thread._users
    until(lambda: not running() - before)


def test_filters_and_the_record_factory_do_not_run_on_the_loop(loop: Loop, notes: Notes) -> None:
    threads: list[str] = []

    def seen(record: logging.LogRecord) -> bool:
        threads.append(threading.current_thread().name)
        return True

    factory = logging.getLogRecordFactory()
    logging.setLogRecordFactory(lambda *args, **more: seen(factory(*args, **more)) and factory(*args, **more))
    logging.getLogger(NAME).addFilter(seen)
    try:
        on_loop(loop, lambda: log.info("it"))
        assert logs.current().flush(SECONDS)
    finally:
        logging.setLogRecordFactory(factory)
        logging.getLogger(NAME).removeFilter(seen)
    assert set(threads) == {"pykafka4-log"}


def test_the_loop_logs_while_another_thread_holds_the_lock_of_logging(loop: Loop, notes: Notes) -> None:
    """As `logging.config` does, while it makes handlers that may take their time."""
    held, release = threading.Event(), threading.Event()

    def configure() -> None:
        with logging._lock:  # type: ignore[attr-defined]
            held.set()
            release.wait(SECONDS)

    logging.getLogger(NAME)._cache.clear()  # type: ignore[attr-defined]
    thread = threading.Thread(target=configure, daemon=True)
    thread.start()
    assert held.wait(SECONDS)
    try:
        on_loop(loop, lambda: log.info("it"))
        assert thread.is_alive(), "the loop waited for the lock"
    finally:
        release.set()
        thread.join(SECONDS)
    assert logs.current().flush(SECONDS)
    assert notes.messages == ["it"]


def test_warnings_of_collected_handles_do_not_run_on_the_loop(loop: Loop) -> None:
    threads: list[str] = []

    def note() -> None:
        threads.append(threading.current_thread().name)

    on_loop(loop, lambda: logs.current().aside(note))
    assert logs.current().flush(SECONDS)
    logs.current().aside(note)
    assert threads == ["pykafka4-log", threading.current_thread().name]


@pytest.fixture
def held(notes: Notes, monkeypatch: pytest.MonkeyPatch) -> Notes:
    """Handles nothing before `close` waits for it."""
    asked = threading.Event()
    flush = logs.LogThread.flush

    def noticed(users: logs.LogThread, timeout: float = SECONDS) -> bool:
        asked.set()
        return flush(users, timeout)  # on a busy machine a second may be too short

    monkeypatch.setattr(logs.LogThread, "flush", noticed)
    notes.act = lambda record: asked.wait(SECONDS)
    return notes


def test_closing_hands_over_what_was_logged_last_and_ends_the_thread(client: Client, held: Notes) -> None:
    on_loop(inspect(client).loop, lambda: [log.info("%d", n) for n in range(20)])
    thread = logs.current()._thread
    others = logs.current()._users - {inspect(client).loop}
    client.close(SECONDS)
    assert len(held.records) == 20
    if not others:  # a client that another test forgot may still be there
        assert thread is not None
        until(lambda: not thread.is_alive())


def test_closing_hands_over_what_a_loop_logged_that_has_ended_already(client: Client, held: Notes) -> None:
    on_loop(inspect(client).loop, lambda: [log.info("%d", n) for n in range(20)])
    inspect(client).loop.stop()
    inspect(client).thread.join(SECONDS)
    client.close(SECONDS)
    assert len(held.records) == 20


def test_closing_does_not_wait_long_for_a_handler_that_blocks(client: Client, notes: Notes) -> None:
    release = threading.Event()
    notes.act = lambda record: release.wait(SECONDS)
    on_loop(inspect(client).loop, lambda: log.info("it"))
    began = time.monotonic()
    client.close(SECONDS)
    assert time.monotonic() - began < SECONDS / 2
    release.set()


def test_a_handler_may_close_the_client_that_logs(client: Client, notes: Notes) -> None:
    closed = threading.Event()
    notes.act = lambda record: (client.close(SECONDS), closed.set())
    inspect(client).loop.call(lambda now: log.info("it"))
    assert closed.wait(SECONDS)
    assert not inspect(client).thread.is_alive()


def test_what_a_loop_logs_last_is_seen_when_the_interpreter_exits() -> None:
    done = python(
        "import logging, pykafka4\n"
        "logging.basicConfig(level=logging.INFO)\n"
        f"client = pykafka4.Client(bootstrap_servers='127.0.0.1:{closed_port()}')\n"
        "client._runtime.loop._post(lambda now: 1 / 0)\n"
        "client._runtime.loop._thread.join(20)\n"
    )
    assert "the loop crashed" in done.stderr
    assert "ZeroDivisionError" in done.stderr


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_client_of_a_forked_child_logs_too(client: Client) -> None:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            notes = Notes()
            logging.getLogger(NAME).addHandler(notes)
            logging.getLogger(NAME).setLevel(logging.INFO)
            mine = Client(bootstrap_servers="127.0.0.1:1")
            on_loop(inspect(mine).loop, lambda: log.info("from the child"))
            mine.close(SECONDS)
            os.write(writer, repr(notes.messages).encode())
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    said = os.read(reader, 1000).decode()
    os.close(reader)
    assert said == "['from the child']"


def fields_of(record: logging.LogRecord) -> dict[str, object]:
    every = {*vars(logging.LogRecord("", 0, "", 0, "", (), None)), "message", "asctime"}
    return {name: value for name, value in vars(record).items() if name not in every}


def test_a_record_has_the_fields_of_its_subject_and_of_the_call(loop: Loop, notes: Notes) -> None:
    """Whichever thread logs it. A field that is not known is left out."""
    group = Subject.of("mine", "group g", group="g", transactional_id=None)

    def act() -> None:
        log.info("%s: %s: moved", group, "t-1", tp=TopicPartition("t", 1), broker=3, address=None)
        log.warning("%s: connected", "mine", broker=1)
        log.warning("%d lines were dropped", 5)

    act()
    on_loop(loop, act)
    assert logs.current().flush(SECONDS)
    assert notes.messages == ["mine: group g: t-1: moved", "mine: connected", "5 lines were dropped"] * 2
    moved = {"client_id": "mine", "group": "g", "topic": "t", "partition": 1, "broker": 3}
    assert [fields_of(record) for record in notes.records] == [moved, {"client_id": "mine", "broker": 1}, {}] * 2


def test_a_field_that_the_applications_factory_sets_is_no_error(notes: Notes, monkeypatch: pytest.MonkeyPatch) -> None:
    def make(*args: object, **options: object) -> logging.LogRecord:
        record = logging.LogRecord(*args, **options)  # type: ignore[arg-type]
        record.topic = "theirs"
        return record

    monkeypatch.setattr(logging, "_logRecordFactory", make)
    log.warning("%s: here", "mine", topic="ours")
    assert fields_of(notes.records[0])["topic"] == "ours"


def test_a_subject_is_a_plain_text_elsewhere() -> None:
    group = Subject.of("mine", "group g", group="g")
    assert pickle.loads(pickle.dumps(group)) == "mine: group g" == f"{group}"
