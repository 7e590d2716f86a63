"""Applies deliberate bugs to the client, and runs the tests that must notice them. `make mutants` fails if a bug survives its tests."""
