"""Runs brokers in containers of a Docker engine: the engine that DOCKER_HOST names, otherwise one of our own (`no_registry`)."""
