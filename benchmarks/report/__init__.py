"""Results, goals, pages and plots of measurements."""
