"""What the brokers hold, read from their logs without any code of the client."""
