"""Names of other Kafka clients: hints for their users, and their properties as options of this client.

`names` is the table, `source` reads files and mappings, `properties` and `security` translate, the latter TLS and SASL.
The classes of options are arguments, as `pykafka4.options` imports this package.
"""
