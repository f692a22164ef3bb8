"""Servers of a test: API servers, etcds, cert-manager."""
