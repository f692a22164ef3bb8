"""The workers of a node as one group."""
