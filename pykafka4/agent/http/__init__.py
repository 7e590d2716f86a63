"""Serves the agent's pages on a loopback address: the web page, Dory's JSON, Prometheus. Invariant: only two kinds of
requests act on the agent: a POST that updates the metadata, and a request of /discards, which marks the finished report as read.

The agent's loop accepts requests. A separate thread makes the answers that have figures, so that the loop does not wait for the
producer's thread.

Modules; each line imports only from lines below it:
    server      PageServer: the port, paths and answers
    guarding    checks of requests, limits of connections
    observer    Observer: a thread that reads figures, remembers rates and outages, and makes the answers
    page_data   the JSON of the web page
    headline    the agent's state in plain words
    metrics     the figures for Prometheus
    dory        Dory's pages, as JSON and plain text
    account_data  the complete account as JSON, with reasons per topic
    agent_view  AgentView: the figures of a running agent
    troubles    the parts of the agent and the cluster that do not work
    look        the figures at a moment, as values

The folder `page` has the HTML and JavaScript of the web page, which are served unchanged. `pykafka4.pages` has the parts that the agent's
page shares with the status page of a client.
"""
