"""Transport. Rule: bytes in, whole frames out; the seam `Transport` is all that a later compiled pump has to offer."""
