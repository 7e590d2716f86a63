"""What becomes of properties: the options, or the error."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka4.errors import ConfigError
from pykafka4.options.config import ClientConfig
from pykafka4.options.from_properties import translate


def options(properties: Any, kind: type[ClientConfig] = ClientConfig, **more: Any) -> dict[str, Any]:
    return translate(kind, properties, more).options


def refused(properties: Any, kind: type[ClientConfig] = ClientConfig, **more: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        translate(kind, properties, more)
    return str(caught.value)
