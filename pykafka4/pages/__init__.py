"""Serves the status page of a client on loopback, and has the parts that this page shares with the page of the agent. Invariant: a status
page only reads.

A status page uses the HTTP server of the standard library. The page has two threads: one accepts connections (each request has its own
thread), the other looks at the client even while nobody reads the page.

Modules; each line imports only from lines below it:
    status_page       `StatusPage`: opens and closes the page; the paths
    processes         the file by which `pykafka4 watch` finds pages
    watcher           takes looks at a client; keeps rates and outages; makes the page's JSON
    server            HTTP on loopback, with limits on connections and time
    client_headline   the state of a client in plain words
    partition_rows    the rows of partitions, the worst first
    watched           the figures of a client at one moment
Shared with the agent:
    shared_look       one look for all readers, and its cost
    rates             rates of the last ten minutes
    outages           a timeline of outages
    brokers           a row for each broker
    headline          a sentence and its details, as a value
    guarding          checks of Host and Origin; headers of responses
    files             HTML, CSS, JavaScript and the icon

The folder `page` has the files of the status page, and the files that both pages share.
"""
