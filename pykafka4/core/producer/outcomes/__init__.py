"""Outcomes of batches: acknowledged, failed or dropped, and the counts of their records.

deadlines       fails batches after `delivery_timeout_ms`; back-offs of queues
batch_outcomes  acknowledges and fails batches, and keeps their callbacks until the next poll
measures        histograms of acknowledged batches
obstacles       the reason why a batch could not be sent, or was not acknowledged in time
ledger          counts of records: accepted = acked + queued + in flight + failed + dropped
losses          sums of failed and dropped records
"""
