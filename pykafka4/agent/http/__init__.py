"""Pages of the agent on a loopback address: the web page, Dory's JSON, Prometheus. Invariant: only POST /metadata_update changes anything.

The agent's loop takes requests; a thread of the pages' own makes all answers, so that no number of readers delays a message.

Modules; each line imports only from lines below it:
    server      PageServer: opens and closes the pages; the paths
    guarding    which requests are answered; limits of connections
    observer    Observer: looks at the agent in a thread of its own, remembers rates and outages, makes the answers
    page_data   what the web page shows, as JSON
    headline    the agent's state in plain words
    metrics     the figures for Prometheus
    dory        the ancestor's JSON and plain text
    account_data  the whole account as JSON: reasons per topic, the report since the start
    agent_view  AgentView: the figures of a running agent
    troubles    what is out of order, for the time line of outages
    look        the figures of the agent at a moment, as values

The web page itself is in the folder page: HTML and JavaScript, served as they are. `pykafka4.pages` has the parts that it shares with the
status page of a client: rates, outages, checks of headers, CSS, and the JavaScript for words, rows and curves.
"""
