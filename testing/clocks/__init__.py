"""Clocks that a test sets, and wall clocks that jump."""
