"""Reads the records in the brokers' logs, without any code of the client."""
