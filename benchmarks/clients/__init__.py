"""What a measured process of `benchmarks.contender` does, one module per client. Rule: same records and same loop for all (`load.py`)."""
