"""Views: pure functions from the state of a job to text, pictures and pages."""
