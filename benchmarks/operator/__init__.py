"""Measurements of the operator."""
