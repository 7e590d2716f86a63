"""Sockets, threads and time. Rule: the only package that touches them; no Kafka decision is made here."""
