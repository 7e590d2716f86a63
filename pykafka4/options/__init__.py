"""Everything that can be set: the options of clients, producers and consumers, their types, and their checks."""
