"""Rendezvous over etcd: pure plans (`plan`, `steps`, `txns`) and the two loops that carry them out."""
