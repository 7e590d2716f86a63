"""Administration: questions about many groups or partitions, each sent to the brokers that can answer it.

Rule: every key of a question gets its own outcome, so an error of one never hides the answers about the others.

Modules; each line imports only from lines below it:

    calls        calls about many groups: sequences of questions
    machine      the machine of an `AdminClient`: runs questions until each key has its outcome
    groups, offsets    the questions: their requests, and what responses mean
    places       which broker is asked about a key
    work         one question under way: who has been asked, retries, the deadline
    values       what the answers consist of
"""
