"""Pass messages to the agent of this machine. The agent delivers each message, or discards and counts it; a missing agent
does not stop the application.

pykafka4 agent --config examples/agent.toml      # in another terminal
python examples/agent_client.py --socket-path /run/pykafka4/agent.sock --topic clicks --count 1000
"""

from __future__ import annotations

import argparse

from pykafka4.agent import Client


def main() -> None:
    parser = argparse.ArgumentParser(description="Pass numbered clicks of ten users to the agent of this machine.")
    parser.add_argument("--socket-path", default="/run/pykafka4/agent.sock")
    parser.add_argument("--topic", default="clicks")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--max-block-ms", type=float, default=1000, help="longest wait of a message for a slow or missing agent")
    options = parser.parse_args()

    # A datagram socket has room for few messages. An application that would rather lose messages than wait sets max_block_ms to 0.
    with Client(options.socket_path, max_block_ms=options.max_block_ms) as agent:
        for number in range(options.count):
            user = number % 10
            # All clicks of a user go to one partition, whose number is `partition_key` modulo the number of the topic's partitions.
            agent.send(options.topic, f"click {number}", key=f"user {user}", partition_key=user)
        lost = sum(agent.lost.values())
        why = f"; the last reason: {agent.last_error}" if lost else ""
    print(f"handed over {options.count - lost} messages, lost {lost}{why}")


if __name__ == "__main__":
    main()
