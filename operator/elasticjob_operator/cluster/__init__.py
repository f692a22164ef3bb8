"""Access to the API server, or to a cluster in memory in its place."""
