"""Helpers that programs know by path: `utils.store`."""
