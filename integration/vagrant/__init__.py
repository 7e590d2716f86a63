"""Runs brokers on machines that Vagrant makes: the scripts here run inside a machine, and the Python modules drive it from outside."""
