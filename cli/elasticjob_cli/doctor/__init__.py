"""Checks of an installation: a check a function, each with its finding and its cure."""
