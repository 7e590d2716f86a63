"""This machine: what it lacks, what is kept on it, its ports, and who ends what a killed process leaves running."""
