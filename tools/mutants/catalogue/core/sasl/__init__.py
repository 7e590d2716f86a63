"""Bugs of SASL."""
