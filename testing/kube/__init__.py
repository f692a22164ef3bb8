"""Parts of a cluster on a real API server."""
