"""A member of a job's rendezvous: session, join, execution of its steps."""
