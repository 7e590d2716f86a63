"""Runs Java's own clients and tools, of the newest release and of older ones."""
