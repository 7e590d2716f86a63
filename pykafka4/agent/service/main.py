"""The command line of the agent: `pykafka4 agent --config agent.toml`."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from pathlib import Path

from pykafka4.agent.service.agent import Agent
from pykafka4.agent.settings.file import read_settings

__all__ = ["main"]


def main(arguments: Sequence[str]) -> int:
    """Run the agent; returns the exit code."""
    parser = argparse.ArgumentParser(prog="pykafka4 agent", description="Take messages of local programs and send them to Kafka.")
    parser.add_argument("--config", required=True, metavar="FILE", type=Path)
    given = parser.parse_args(arguments)
    asyncio.run(Agent(read_settings(given.config)).run())
    return 0
