"""Pure decisions, one policy per module: from plain records and times, without I/O, clocks or randomness."""
