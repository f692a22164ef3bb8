"""What `make bench-check` counts: a module a subject, each with `take()`, which gives its counts.

Nothing is imported here: of what a module imports, all would be counted with one.
"""
