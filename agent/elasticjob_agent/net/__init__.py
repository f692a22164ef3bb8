"""Addresses, ports and servers of this host."""
