"""Committed offsets: `offsets` commits them and looks them up."""
