"""Profiles of processor time."""
