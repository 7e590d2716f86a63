"""Starts a cluster by hand, in a daemon, and sends orders to it: each command is one order, and prints its result.

python -m integration up [--backend local|docker|vagrant] [--brokers 3] [--version 4.4.0] [--security SASL_SSL|SSL|SASL_PLAINTEXT]
python -m integration status
python -m integration kill|start|stop|restart|freeze|thaw|disconnect|reconnect|cut|mend N
python -m integration start             (all that are down, at once)
python -m integration down
python -m integration clean
"""

from __future__ import annotations

import argparse
import json
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

from integration.backends import BACKENDS, backend, chosen
from integration.daemon import NODE_ORDERS, state_file
from integration.kafka.jars import KAFKA
from integration.security.settings import Protocol
from integration.waiting import WaitTimeout, until

START_S, ORDER_S = 900.0, 180.0  # seconds for a start, in which a first run may make a machine image, and for an order
ROOT = Path(__file__).parent.parent


class NotUp(RuntimeError):
    """Raised if no daemon answers."""


def order(verb: str, **arguments: Any) -> Any:
    """Send one order to the daemon. Returns its result, or raises its error."""
    try:
        told = json.loads(state_file().read_text())
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(ORDER_S)
            connection.connect(told["socket"])
            connection.sendall(json.dumps({"do": verb, **arguments}).encode() + b"\n")
            answer = json.loads(connection.makefile("rb").readline())
    except (OSError, ValueError, KeyError) as error:
        raise NotUp("no cluster is up; start one with: python -m integration up") from error
    if "error" in answer:
        raise RuntimeError(answer["error"])
    return answer["result"]


def up(options: argparse.Namespace) -> None:
    try:
        print(f"already up: {order('status')['bootstrap']}")
        return
    except NotUp:
        state_file().unlink(missing_ok=True)
    log = state_file().with_suffix(".log")
    command = [sys.executable, "-m", "integration.daemon", options.backend, str(options.brokers), options.version, options.security]
    with log.open("wb") as out:
        daemon = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)
    until(lambda: state_file().exists() or daemon.poll() is not None, START_S, f"the cluster to come up; see {log}")
    if daemon.poll() is not None:
        raise RuntimeError(f"the cluster did not come up:\n{log.read_text()[-3000:]}")
    daemon.returncode = 0  # otherwise Popen warns about a child that still runs, as the daemon does on purpose
    told = order("status")
    print(told["bootstrap"])
    explain(told)


def explain(told: dict[str, Any]) -> None:
    if told["clients"]:
        print(f"  clients need: {told['clients']}")


def status(_options: argparse.Namespace) -> None:
    told = order("status")
    print(f"{told['bootstrap']}  (Kafka {told['version']})")
    explain(told)
    for row in told["brokers"]:
        print(f"  broker {row['node']}: {row['state']:8} {row['process']}  {row['address']}  log {row['log']}")
    if told["trouble"]:
        print(f"  no answers from the brokers: {told['trouble']}")
    else:
        short = len(told["out_of_sync"])
        print(
            f"  cluster {told['cluster_id']}, controller {told['controller']}, {told['topics']} topics, {short} partitions without full ISR"
        )


def down(_options: argparse.Namespace) -> None:
    order("down")
    until(lambda: not state_file().exists(), ORDER_S, "the cluster to go down")
    print("down")


def clean(_options: argparse.Namespace) -> None:
    for name in BACKENDS:
        for line in backend(name).clean() or ["nothing to remove"]:
            print(f"{name}: {line}")


def on_node(options: argparse.Namespace) -> None:
    if options.node is None:
        print(f"brokers are {', '.join(order('start', node=None))}")
        return
    print(f"broker {options.node} is {order(options.command, node=options.node)}")


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m integration", description="A real Kafka cluster, of three brokers by default.")
    commands = parser.add_subparsers(dest="command", required=True)
    start = commands.add_parser("up", help="start the cluster and print its bootstrap servers")
    start.add_argument("--backend", choices=list(BACKENDS), default=chosen(), help="backend of the brokers (default: $CLUSTER or local)")
    start.add_argument("--brokers", type=int, default=3)
    start.add_argument("--version", default=KAFKA)
    start.add_argument("--security", choices=get_args(Protocol), default="", help="protocol of the clients; prints their options")
    commands.add_parser("status", help="print the state, process and address of each broker")
    commands.add_parser("down", help="kill all brokers and remove their folders")
    commands.add_parser("clean", help="remove the leftovers of killed runs, on every backend; touches nothing that is in use or not ours")
    for verb in NODE_ORDERS:
        several = "?" if verb == "start" else None  # if all brokers are down, one of three has no quorum: `start` starts all
        commands.add_parser(verb, help=f"{verb} one broker").add_argument("node", type=int, nargs=several)
    return parser


def main(argv: list[str] | None = None) -> int:
    """Returns 0, or 1 with the reason on standard error."""
    options = arguments().parse_args(argv)
    run: dict[str, Callable[[argparse.Namespace], None]] = {"up": up, "status": status, "down": down, "clean": clean}
    try:
        run.get(options.command, on_node)(options)
    except (RuntimeError, ValueError, WaitTimeout) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
