"""Record batches, which Produce and Fetch carry. Rule: what runs per record exists twice, compiled and in Python, with equal results.

Modules; each line imports only from lines below it:

    hot           chooses which of the two runs; everybody imports their names from here
    compiled/     the compiled core
    reference     the plain-Python core: used where nothing is compiled, and what the compiled core is tested against
                  (`_plain_batch`: batches and handles, `_plain_decode`: from fetched bytes to records)
    batch         Kafka's record formats, in readable Python
    compression   the codecs; what they unpack is bounded
"""
