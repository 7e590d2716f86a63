"""Provides figures of clients for monitoring, read when a reader collects them.

Modules; each line imports only from lines below it:
    opentelemetry/  metrics and traces for OpenTelemetry (extra `opentelemetry`)
    prometheus      a collector for prometheus_client (extra `prometheus`)
    pushed          figures with Java's names, for brokers that request them (KIP-714)
    open_clients    the clients of a reader that collects repeatedly
    naming          Prometheus names of metrics and labels
    sources         sources of figures: network, producer, consumer, share consumer
    catalogue       the definition of each metric
    values          metrics and their kinds
"""
