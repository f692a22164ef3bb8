"""Rules for slots and their pods, without I/O."""
