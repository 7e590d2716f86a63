"""Runs Java's own clients and tools, of today and of each release."""
