"""Kafka's requests and responses. Rule: a message is declared once for all its versions; each version is compiled on its first use.

Modules; each line imports only from lines below it:

    declared     imports every message; only the broker side (`pykafka4.testing`) needs all of them
    frame        what is written to and read from a connection: size, header, message
    messages_*   the messages, by sender; a client imports only those, because declaring one takes time:
                 `cluster` every client, `produce`, `txn` and `configs` producers, `fetch` and `group` consumers,
                 `sasl` those that authenticate, `admin` the calls for operators
    schema       how messages are declared, encoded and decoded
    compiler     generates the encoder and the decoder of a message in one version
    weight       how much memory a decoded message may take
    fields       the types, versions, defaults and tags of fields
"""
