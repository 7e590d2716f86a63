"""Deliberate bugs of the client, each with the tests that must notice it. `make mutants` applies them one by one; a survivor fails it."""
