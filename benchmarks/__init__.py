"""Measurements: what each prints is measured in that run; nothing here is a test."""
