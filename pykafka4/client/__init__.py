"""The public client, and the loop that producers and consumers share through it."""
