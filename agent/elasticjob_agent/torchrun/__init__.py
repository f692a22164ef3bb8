"""A rendezvous handler for an unmodified torchrun."""
