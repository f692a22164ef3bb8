"""The node agent: rendezvous, ranks, workers, restarts, reports."""
