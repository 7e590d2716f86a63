"""Figures of clients for monitoring, made when somebody reads them. Invariant: no figure costs anything per record.

Modules; each line imports only from lines below it:
    opentelemetry/  metrics and traces for OpenTelemetry (extra `opentelemetry`)
    prometheus      a collector for prometheus_client (extra `prometheus`)
    pushed          figures with Java's names, for brokers that want them (KIP-714)
    open_clients    the clients that are read again and again
    naming          Prometheus names of metrics and labels
    sources         where a client's figures come from: its network, its producer, its consumer
    catalogue       the definition of every metric
    values          a metric and its kinds
"""
