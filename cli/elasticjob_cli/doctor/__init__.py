"""Checks of an installation: each check is a function that yields findings, with the cure of a fault."""
