"""Measurements of the rendezvous."""
