"""Runs the command line of the agent: `pykafka4 agent --config agent.toml`."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pykafka4 import __version__
from pykafka4.agent.service.agent import Agent
from pykafka4.agent.service.check import check, summary
from pykafka4.agent.service.codes import Exit
from pykafka4.agent.service.logs import Logs
from pykafka4.agent.service.unit import systemd_unit
from pykafka4.agent.settings.file import SettingsError, read_settings
from pykafka4.agent.settings.values import AgentSettings

__all__ = ["main"]

log = logging.getLogger("pykafka4.agent")
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)  # the signals with a handler in `Agent`

EXAMPLE = """\
a first agent.toml:
  [inputs]
  unix_datagram = { path = "/tmp/agent.sock" }
  [kafka]
  bootstrap_servers = "localhost:9092"

then:
  pykafka4 agent --config agent.toml
  pykafka4 send --socket-path /tmp/agent.sock --topic clicks --value hello

signals:
  TERM, INT   stop the inputs, deliver waiting messages for up to service.shutdown_ms, end; after a second signal, end at once
  HUP         read the settings again; the log says which changes take effect, and which need a restart

exit codes:
{codes}
"""


def main(arguments: Sequence[str]) -> int:
    given = _parser().parse_args(arguments)
    if given.systemd_unit:
        sys.stdout.write(systemd_unit(given.config))
        return Exit.OK
    if given.config is None:
        sys.stderr.write("pykafka4 agent: --config FILE is missing; --help shows a first file\n")
        return Exit.SETTINGS
    try:
        settings = read_settings(given.config)
        problems = check(settings)
    except SettingsError as error:
        problems = list(error.problems)
    if problems:
        sys.stderr.write("".join(f"{problem}\n" for problem in problems))
        return Exit.SETTINGS
    if given.check:
        sys.stdout.write(summary(settings, given.config))
        return Exit.OK
    return _run(settings, given.config)


def _run(settings: AgentSettings, config: Path) -> int:
    logs = Logs(settings.service.log_level)
    try:
        return asyncio.run(Agent(settings, config, logs).run())
    except Exception:
        log.critical("agent: a bug", exc_info=True)
        return Exit.CRASHED
    finally:
        # The loop handles no signals now, so a signal would kill the process before the last log lines, with another exit code.
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        logs.close()


def _parser() -> argparse.ArgumentParser:
    codes = "".join(f"  {code.value:<4} {code.meaning}\n" for code in Exit)
    parser = argparse.ArgumentParser(
        prog="pykafka4 agent",
        description="Take messages from local programs and send them to Kafka. The guide is docs/guide/agent.md.",
        epilog=EXAMPLE.replace("{codes}\n", codes),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--config", metavar="FILE", type=Path, help="the settings, in TOML")
    parser.add_argument("--check", action="store_true", help="only check the settings, and print a summary")
    parser.add_argument("--systemd-unit", action="store_true", help="print a unit file for systemd, with the FILE of --config")
    parser.add_argument("--version", action="version", version=f"pykafka4 {__version__}")
    return parser
