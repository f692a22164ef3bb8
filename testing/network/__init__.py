"""Networks that misbehave on demand."""
