"""Brokers on machines that Vagrant makes: what runs inside a machine are the scripts here, what drives it from outside is Python."""
