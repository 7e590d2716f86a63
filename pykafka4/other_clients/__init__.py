"""Gives hints to users of other Kafka clients, and translates the properties of those clients into options of this client.

This package cannot import the classes of options, because `pykafka4.options` imports this package. Callers pass the classes.

Modules; each line imports only from lines below it:
    properties   translates properties of the Java client and librdkafka, except TLS and SASL
    security     translates properties of TLS and SASL
    translation  the result of a translation: options, properties without effect
    source       properties from files and mappings
    tables       the tables, one row per foreign name: options, properties, methods, arguments, classes
"""
