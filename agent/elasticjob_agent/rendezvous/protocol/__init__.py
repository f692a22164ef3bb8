"""The rules of the rendezvous, without I/O."""
