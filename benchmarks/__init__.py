"""Measurements: each program prints numbers that it measured in that run; none is a test."""
