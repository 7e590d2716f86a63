"""Provides the parts of a broker: its release, the release's jars, its settings, and a formatted data folder."""
