"""Runs brokers of any release as plain processes of this machine."""
