"""The examples of the agent: its file is valid, and what the client hands over arrives."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from pykafka4.agent.producing import producer_options
from pykafka4.agent.settings.file import parse_settings, read_settings
from pykafka4.agent.settings.values import Batching
from pykafka4.options.config import ProducerConfig
from pykafka4.testing import ModelServer
from tests.net.net_helpers import SECONDS, until

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "examples" / "agent.toml"
COUNT = 300


def test_the_file_is_valid_also_with_what_is_commented_out() -> None:
    settings = read_settings(FILE)
    ProducerConfig.parse(producer_options(settings))
    assert settings.topics.default.batching is Batching.COMBINED
    lines = FILE.read_text().splitlines()
    uncommented = [line.removeprefix("# ") if "=" in line or line.startswith("# [") else line for line in lines]
    assert parse_settings("\n".join(uncommented), "agent.toml").spool is not None


def test_what_the_client_hands_over_arrives_in_the_partition_of_its_user(tmp_path: Path) -> None:
    with ModelServer() as server:
        server.create_topic("clicks", 5)
        text = FILE.read_text().replace("/run/pykafka4", str(tmp_path)).replace("localhost:9092", server.bootstrap_servers)
        config, socket_path = tmp_path / "agent.toml", tmp_path / "agent.sock"
        config.write_text(text.replace("port = 9101", "port = 0").replace("port = 9090", "port = 0"))
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        agent = subprocess.Popen([sys.executable, "-m", "pykafka4", "agent", "--config", str(config)], env=environment)
        try:
            until(socket_path.exists, "the agent's socket")
            client = [sys.executable, str(ROOT / "examples" / "agent_client.py"), "--socket-path", str(socket_path), "--count", str(COUNT)]
            client += ["--max-block-ms", str(SECONDS * 1000)]
            done = subprocess.run(client, env=environment, capture_output=True, text=True, timeout=SECONDS, check=True)
            assert done.stdout == f"handed over {COUNT} messages, lost 0\n"
            until(lambda: len(server.records("clicks")) == COUNT, "the messages")
        finally:
            agent.send_signal(signal.SIGTERM)
            agent.wait(SECONDS)
        for partition in range(5):
            users = {record.key for record in server.records("clicks", partition)}
            assert users == {f"user {partition}".encode(), f"user {partition + 5}".encode()}
