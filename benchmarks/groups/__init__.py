"""Groups. Rule: both clients get the same members, topics, processes and threads, in turns in one run on a real cluster."""
