"""`python -m pykafka4 demo`."""

from __future__ import annotations

import io
import subprocess
import sys

from pykafka4.producer import Producer
from pykafka4.testing.demo import Demo
from pykafka4.testing.server.model_server import ModelServer


def test_demo_needs_neither_click_nor_rich_and_loses_nothing() -> None:
    """Takes seconds: the demo sends for six, so that there is something to see."""
    program = "import sys; sys.modules['click'] = sys.modules['rich'] = None; from pykafka4.__main__ import main; sys.exit(main())"
    ended = subprocess.run([sys.executable, "-c", program, "demo", "--records", "3000"], capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.count("  ok  ") == 5
    assert "is killed" in ended.stdout
    assert "is back" in ended.stdout
    assert "3,000 of 3,000 in the brokers' log" in ended.stdout


def test_demo_reports_records_that_the_log_lacks_or_has_twice() -> None:
    with ModelServer() as server, Producer(bootstrap_servers=server.bootstrap_servers) as producer:
        server.create_topic("orders", 6)
        server.produce("orders", "0", "2", "2", "1")
        demo = Demo(server, producer, records=4, out=io.StringIO())
        kept = {check.promise: check.kept for check in demo._checks()}
    assert kept == {
        "no record is lost": False,
        "no record is in the log twice": False,
        "each customer's records are in send order": False,
        "the group read every record": False,
        "the group committed every record": False,
    }


def test_demo_refuses_a_number_of_records_that_is_none() -> None:
    assert subprocess.run([sys.executable, "-m", "pykafka4", "demo", "--records", "many"], capture_output=True, timeout=60).returncode == 2
