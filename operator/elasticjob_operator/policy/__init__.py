"""PURE decisions, one policy a file: plain records and the time in, a decision out. No I/O, no clock, no chance."""
