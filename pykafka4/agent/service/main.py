"""The command line of the agent: `pykafka4 agent --config agent.toml`."""

from __future__ import annotations

import argparse
import asyncio
import tomllib
from collections.abc import Sequence
from pathlib import Path

from pykafka4.agent.service.agent import Agent
from pykafka4.agent.settings.values import AgentSettings, InputSettings, UnixSettings

__all__ = ["main"]


def main(arguments: Sequence[str]) -> int:
    """Run the agent; returns the exit code."""
    parser = argparse.ArgumentParser(prog="pykafka4 agent", description="Take messages of local programs and send them to Kafka.")
    parser.add_argument("--config", required=True, metavar="FILE", type=Path)
    given = parser.parse_args(arguments)
    table = tomllib.loads(given.config.read_text())
    path = Path(table["inputs"]["unix_datagram"]["path"])
    asyncio.run(Agent(AgentSettings(InputSettings(unix_datagram=UnixSettings(path)), table["kafka"])).run())
    return 0
