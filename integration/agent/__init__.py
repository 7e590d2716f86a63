"""The agent as its users have it: its process, programs that send to it, and a foreign reader of its topics."""
