"""The operator's only I/O: the cluster, the rendezvous view, the work queue."""
