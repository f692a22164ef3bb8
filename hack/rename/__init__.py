"""Renames the project's modules and identifiers as the tables in this folder say."""
