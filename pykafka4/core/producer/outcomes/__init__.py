"""Gives batches their outcomes, acknowledged or failed, and counts their records.

deadlines       delivery timeouts of batches, and backoffs of queues
batch_outcomes  `Outcomes`: acknowledged and failed batches, and their callbacks until the next poll
measures        histograms of acknowledged batches
obstacles       the reason why a batch could not be sent, or was not acknowledged in time
ledger          counts of records: accepted = acked + queued + in flight + failed + dropped
losses          sums of failed and dropped records
"""
