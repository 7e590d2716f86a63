"""Messages on disk that the cluster could not take."""
