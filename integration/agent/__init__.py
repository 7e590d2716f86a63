"""Runs the agent in a process of its own, with programs that send to it, and a reader of its topics that shares no code with pykafka4."""
