"""Pages over HTTP, on a loopback address: JSON under Dory's paths, Prometheus, and a page for people."""
