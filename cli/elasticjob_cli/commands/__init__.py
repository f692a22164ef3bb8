"""One module a group of commands: what each takes, and the few lines from there to what does the work."""
