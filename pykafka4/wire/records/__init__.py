"""Record batches, which Produce and Fetch carry. Rule: what runs per record exists twice, compiled and in Python, with equal results.

Modules; each line imports only from lines below it:

    hot           chooses which of the two runs; everybody imports their names from here
    compiled/     the compiled core
    reference     the plain-Python core: used where nothing is compiled, and what the compiled core is tested against
                  (`_plain_decode`: from fetched bytes to records; of what is sent, from the top: `_plain_delivery`:
                  handles, `_plain_batch`: batches, `_plain_account`: counters and memory, `_plain_topic`: topics and partitions,
                  `_plain_arguments`: what `send` is given)
    batch         whole batches, built and read in plain Python, for tests and the model broker
    encoder       records and batch headers to bytes, in plain Python
    decoder       and back
    common        what both cores call
    compression   the codecs; what they unpack is bounded
    checksum      CRC-32C
    layout        where the fields of a batch lie
"""
