"""Manages the resources of this machine: missing programs, the cache, ports, and processes that must end with their owner."""
