"""A lint for the prose of this repository: docstrings, comments, messages and documents."""
