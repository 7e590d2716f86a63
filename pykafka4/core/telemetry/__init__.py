"""Pushes a client's metrics to brokers (KIP-714). Invariant: only brokers that offer KIP-714 get requests.

Modules; each line imports only from lines below it:
    machine  requests the list of wanted metrics from a broker, and pushes these metrics at the broker's interval
    otlp     metrics as bytes of OpenTelemetry's protocol
"""
