"""The commands: each module has the arguments of a command or a group, and calls the code that does the work."""
