"""Warm start: a worker is forked from an interpreter that has the imports of its script done."""
