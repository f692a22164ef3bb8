"""Helpers that programs import by this path: `utils.store`."""
