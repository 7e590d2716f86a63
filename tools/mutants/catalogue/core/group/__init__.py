"""Bugs of group membership."""
