"""Transfer of parts between keepers."""
