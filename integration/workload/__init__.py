"""Loads on real brokers, judged at the end: numbered records of a producer, and group members in processes of their own."""
