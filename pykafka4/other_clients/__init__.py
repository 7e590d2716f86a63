"""Names of other Kafka clients: hints for their users, and their properties as options of this client.

The classes of options are arguments, as `pykafka4.options` imports this package.

Modules; each line imports only from lines below it:
    properties   translates properties of the Java client and librdkafka, except TLS and SASL
    security     translates properties of TLS and SASL
    translation  the result of a translation: options, properties without effect
    source       properties from files and mappings
    tables       the tables, one row per foreign name or property: options, methods
"""
