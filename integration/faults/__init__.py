"""Makes real brokers and connections fail: the list of faults, which the simulation shares, their schedules, and their execution."""
