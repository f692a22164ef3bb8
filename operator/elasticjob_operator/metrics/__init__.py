"""Metrics of the operator and its jobs."""
