"""Counters of `make bench-check`: one module for each subject, with `take()`, which returns its counts.

Nothing is imported here: an import would be counted with each of them.
"""
