"""Values that the application sees, and may make itself."""

from __future__ import annotations

import attrs
import pytest

from pykafka4 import OffsetAndMetadata, ProducerRecord, RecordMetadata
from pykafka4.records import Written


def test_what_an_application_leaves_out_is_null_unsent_and_unknown() -> None:
    assert RecordMetadata("t", 0, 5, 1_000) == RecordMetadata("t", 0, 5, 1_000, -1, -1)
    assert ProducerRecord("t") == ProducerRecord("t", None, None, (), None, None, Written.NO)
    assert OffsetAndMetadata(5) == OffsetAndMetadata(5, -1, "")


@pytest.mark.parametrize("value", [RecordMetadata("t", 0, 5, 1_000), ProducerRecord("t", b"v"), OffsetAndMetadata(5)])
def test_values_never_change_and_can_be_keys(value: object) -> None:
    for name in attrs.fields_dict(type(value)):
        with pytest.raises(attrs.exceptions.FrozenInstanceError):
            setattr(value, name, None)
    assert {value: 1}[attrs.evolve(value)] == 1  # type: ignore[type-var]
