"""What a broker is made of: its release, the jars of that, its settings, and a formatted data folder."""
