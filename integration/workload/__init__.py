"""Puts loads on real brokers, and judges them at the end: numbered records of a producer, and group members in processes of their own."""
