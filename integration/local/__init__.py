"""Brokers as plain processes of this machine, of any release."""
