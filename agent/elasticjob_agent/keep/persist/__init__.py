"""The shared directory on disk into which committed steps are persisted, and the process that alone touches it."""
