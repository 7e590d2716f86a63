"""Pushes a client's metrics to brokers (KIP-714). Rule: brokers that do not offer it get no request, and no push delays anything else.

Modules; each line imports only from lines below it:
    machine  asks for the metrics that brokers want, and pushes them at their interval
    otlp     metrics as bytes of OpenTelemetry's protocol
"""
