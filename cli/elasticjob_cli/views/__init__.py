"""PURE: from what was seen of a job to text, pictures and pages. Nothing here asks anybody anything."""
