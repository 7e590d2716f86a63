"""Collects scripts for people who change the project. Invariant: the package never imports them, and users need only the package."""
