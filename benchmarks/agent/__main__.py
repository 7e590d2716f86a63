"""Runs loads against the agent and judges its bars.

The loads: at full speed, at half of that rate, at twice that rate with clients that block and with clients that do not, and without
brokers.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

import attrs

from benchmarks.agent.process import AgentProcess, Counts
from benchmarks.agent.senders import Load, Senders, Sent
from benchmarks.sink import Sink

__all__ = ["Run", "main", "run"]

BAR_RATE, BAR_FAST, BAR_MEMORY = 150_000, 0.999, 32 * 1024 * 1024
MIB = 1024 * 1024
NOWHERE, POOL = "127.0.0.1:1", 32 * MIB
QUEUE = Path("/proc/sys/net/unix/max_dgram_qlen")


@attrs.frozen
class Run:
    name: str
    load: Load
    sent: Sent
    before: Counts
    after: Counts
    settled: Counts

    @property
    def rate(self) -> float:
        return (self.after.read - self.before.read) / (self.after.at - self.before.at)

    @property
    def cpu_us(self) -> float:
        """CPU microseconds of the agent's process per message, until all were acknowledged."""
        return (self.settled.cpu - self.before.cpu) * 1e6 / max(1, self.settled.read - self.before.read)

    @property
    def loop_us(self) -> float:
        """The part of `cpu_us` that the agent's loop used; the producer used the rest."""
        return (self.settled.loop_cpu - self.before.loop_cpu) * 1e6 / max(1, self.settled.read - self.before.read)

    @property
    def balanced(self) -> bool:
        """Whether the agent read every sent message, and accepted or discarded each."""
        read = self.settled.read - self.before.read
        kept = self.settled.accepted - self.before.accepted + self.settled.discarded - self.before.discarded
        return self.sent.sent == read == kept and self.settled.refused == 0

    def line(self) -> str:
        discarded = self.settled.discarded - self.before.discarded
        return (
            f"{self.name:34} {self.rate:9,.0f}/s  {self.cpu_us:5.2f} µs CPU ({self.loop_us:4.2f} loop)  "
            f"sends within 1 ms {self.sent.fast:9.4%} (longest {self.sent.longest_us / 1000:6.1f} ms)  "
            f"dropped by clients {self.sent.dropped:9,}  discarded {discarded:9,}  "
            f"resident {self.settled.resident / MIB:5.0f} MiB  {'balances' if self.balanced else 'DOES NOT BALANCE'}"
        )


def run(name: str, agent: AgentProcess, path: Path, load: Load, *, settles: bool = True) -> Run:
    """`settles`: there are brokers, so every message is acknowledged in the end."""
    before = agent.look()
    senders = Senders(path, load)
    time.sleep(load.seconds * 0.98)  # counts after the last send would include time without sends and lower the rate
    after = agent.look()
    sent = senders.results()
    done = Run(name, load, sent, before, after, agent.settled() if settles else agent.look())
    print(done.line(), flush=True)
    return done


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.agent", description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each run")
    parser.add_argument("--processes", type=int, default=4, help="clients")
    parser.add_argument("--topics", type=int, default=4)
    parser.add_argument("--value-size", type=int, default=100)
    parser.add_argument("--linger-ms", type=int, default=1000)
    parser.add_argument("--nice", type=int, default=0, help="of the agent; negative ones need root")
    given = parser.parse_args(arguments)
    load = Load(given.processes, given.seconds, given.value_size, topics=given.topics)
    print(
        f"queue of a datagram socket (net.unix.max_dgram_qlen): {QUEUE.read_text().strip()}; load of the machine: {os.getloadavg()[0]:.1f}"
    )
    with Sink() as sink, tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agent.sock"
        with AgentProcess(path, sink.bootstrap, 128 * MIB, given.linger_ms, given.nice) as agent:
            run("warm-up", agent, path, attrs.evolve(load, seconds=1.0))
            first = agent.look()
            print(f"reader: {first.implementation}; resident {first.resident / MIB:.0f} MiB")
            cheap = run("as fast as sendmmsg can", agent, path, attrs.evolve(load, batch=32))
            full = run("as fast as send can", agent, path, load)
            rate = max(cheap.rate, full.rate)
            half = run("half of that", agent, path, attrs.evolve(load, per_second=rate / 2))
            twice = run("twice that, clients block", agent, path, attrs.evolve(load, per_second=2 * rate))
            quick = run("twice that, clients do not block", agent, path, attrs.evolve(load, per_second=2 * rate, blocking=False))
        with AgentProcess(path, NOWHERE, POOL, given.linger_ms, given.nice) as agent:
            fresh = agent.look()
            full_pool = run("no brokers, pool of 32 MiB", agent, path, load, settles=False)
        peak = max(each.settled.resident for each in (cheap, full, half, twice, quick))
    bars = {
        f"{rate:,.0f} messages/s, at least {BAR_RATE:,}": rate >= BAR_RATE,
        f"{twice.sent.fast:.3%} of blocking sends within 1 ms at twice the load, at least {BAR_FAST:.1%}": twice.sent.fast >= BAR_FAST,
        f"{quick.sent.fast:.3%} of other sends, too": quick.sent.fast >= BAR_FAST,
        "each account balances to the message": all(each.balanced for each in (cheap, full, half, twice, quick, full_pool)),
        f"{peak / MIB:.0f} MiB resident, at most {first.resident / MIB:.0f} + 128 + 32": peak <= first.resident + 128 * MIB + BAR_MEMORY,
        f"{full_pool.settled.resident / MIB:.0f} MiB without brokers, at most {fresh.resident / MIB:.0f} + 32 + 32": (
            full_pool.settled.resident <= fresh.resident + POOL + BAR_MEMORY
        ),
    }
    for text, reached in bars.items():
        print(f"{'ok    ' if reached else 'MISSED'} {text}")
    return 0 if all(bars.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
