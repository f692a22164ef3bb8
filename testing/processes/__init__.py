"""Processes of a test: agents, workers, pods."""
