"""Views: pure functions from the state of a job to text and pictures."""
