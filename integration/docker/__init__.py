"""Brokers in containers of a Docker engine: the one that DOCKER_HOST names, or else one of our own (`no_registry`)."""
