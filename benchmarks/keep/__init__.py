"""Measurements of Keep: one module for each question."""
