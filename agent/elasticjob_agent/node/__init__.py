"""The composition root of one node."""
