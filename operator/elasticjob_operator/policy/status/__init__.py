"""Rules for a job's status, without I/O."""
