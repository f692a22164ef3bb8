"""The rules of one keeper and of the commit channel, without I/O."""
