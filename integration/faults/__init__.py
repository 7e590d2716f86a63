"""What goes wrong on real brokers: the list of faults, which the simulation shares, schedules of them, and how they are made."""
