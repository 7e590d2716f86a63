"""Collects the options that properties set, and the properties without effect. Invariant: no option gets two values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import attrs

from pykafka4.logs import get_log
from pykafka4.other_clients.source import Property
from pykafka4.other_clients.tables import OPTIONS, PROPERTIES, by_prefix

__all__ = ["Kinds", "Translation"]

Kinds: TypeAlias = Mapping[str, type[Any]]  # kind of client -> class of its options; the first class has the options that all clients share

log = get_log("pykafka4.config")


@attrs.define
class Translation:
    kinds: Kinds = attrs.field(repr=False)
    kind: str
    items: dict[str, Property] = attrs.field(repr=False)
    given: Mapping[str, Any] = attrs.field(repr=False)  # options that the application passes itself, which replace properties
    options: dict[str, Any] = attrs.field(factory=dict, repr=False)
    origins: dict[str, Property] = attrs.field(factory=dict)
    _converted: dict[str, Any] = attrs.field(factory=dict, repr=False)
    _ignored: dict[str, list[str]] = attrs.field(factory=dict)  # reason -> names of properties

    def fields(self, kind: str = "") -> Mapping[str, attrs.Attribute[Any]]:
        """The options of `kind`, by default of this translation's kind."""
        return attrs.fields_dict(self.kinds[kind or self.kind])

    def owner(self, option: str) -> str | None:
        """The first kind of client that has the option, or None."""
        return next((kind for kind in self.kinds if option in self.fields(kind)), None)

    def target(self, item: Property) -> str | None:
        """The option that corresponds to a property, or a `NoCounterpart` with the reason; None if the name is unknown."""
        name = item.option_name
        row = PROPERTIES.get(f"{self.kind}/{name}") or PROPERTIES.get(name)
        return row or (name if self.owner(name) else by_prefix(PROPERTIES, name) or OPTIONS.get(name))

    def said(self, option: str) -> str:
        """The option's value as text, from the application, otherwise from a property; empty if there is none."""
        values = (self.given.get(option), *(item.value for item in self.items.values() if self.target(item) == option))
        return next((str(value).strip() for value in values if value not in (None, "")), "")

    def set(self, option: str, item: Property, value: Any, converted: Any = None) -> None:
        """Set an option, unless the application passes it itself. `converted` is the value to compare with another property's value.

        Raises ConfigError if another property has set the option to another value.
        """
        if option in self.given:
            return
        converted = value if converted is None else converted
        if self._converted.setdefault(option, converted) != converted:
            earlier = self.origins[option]
            raise item.error(f"{earlier} ({earlier.where}) sets the same option, {option}, to another value; remove one of the two")
        if option not in self.options:
            self.options[option], self.origins[option] = value, item

    def ignore(self, item: Property, why: str) -> None:
        self._ignored.setdefault(why, []).append(item.name)

    def log_ignored(self) -> None:
        if self._ignored:
            client_id = self.said("client_id") or self.fields()["client_id"].default
            log.info(
                "%s: ignored properties: %s", client_id, "; ".join(f"{', '.join(names)} ({why})" for why, names in self._ignored.items())
            )
