"""What only a machine without an image registry needs: a Docker engine of our own, and images made of what the machine has.

Rule: this is the door. Whoever is outside imports these names from here, and nothing else of this folder.
"""

from integration.docker.no_registry.box import build as machine_image
from integration.docker.no_registry.box import key as machine_key
from integration.docker.no_registry.box import missing as missing_for_machines
from integration.docker.no_registry.dockerd import Dockerd
from integration.docker.no_registry.image import build as broker_image
from integration.docker.no_registry.obstacles import missing as missing_for_engine

__all__ = ["Dockerd", "broker_image", "machine_image", "machine_key", "missing_for_engine", "missing_for_machines"]
