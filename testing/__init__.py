"""Builders, fakes and harnesses of tests, end-to-end tests and benchmarks; it contains no test."""
