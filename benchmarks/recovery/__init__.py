"""Measurements of recovery."""
