"""Tables of compacted topics, on the model cluster."""
