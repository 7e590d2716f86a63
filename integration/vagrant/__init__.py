"""Vagrant machines that are Kafka nodes. Rule: what runs inside a machine are the scripts here, what drives it from outside is Python."""
