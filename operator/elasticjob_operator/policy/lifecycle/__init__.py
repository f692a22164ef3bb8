"""Rules for a job's lifecycle, without I/O."""
