"""Facts of the machine: processors, accelerators, out-of-memory counters."""
