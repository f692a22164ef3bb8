"""Measurements of starting and watching processes."""
