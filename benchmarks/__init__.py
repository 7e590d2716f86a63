"""Benchmarks. Rule: contenders take turns in one run, each in a process of its own, and nothing counts that was not verified."""
