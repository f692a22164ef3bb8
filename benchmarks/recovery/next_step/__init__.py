"""From a worker's death to the next training step."""
