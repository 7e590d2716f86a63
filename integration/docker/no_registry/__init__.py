"""Runs a Docker engine of our own, and makes images from the files of this machine, for machines without an image registry.

Invariant: other packages import the names listed here, and no module of this folder.
"""

from integration.docker.no_registry.box import build as machine_image
from integration.docker.no_registry.box import key as machine_key
from integration.docker.no_registry.box import missing as missing_for_machines
from integration.docker.no_registry.dockerd import Dockerd
from integration.docker.no_registry.image import build as broker_image
from integration.docker.no_registry.obstacles import missing as missing_for_engine

__all__ = ["Dockerd", "broker_image", "machine_image", "machine_key", "missing_for_engine", "missing_for_machines"]
