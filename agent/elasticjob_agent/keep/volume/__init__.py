"""The directory in memory that holds the parts of a node."""
