"""A whole job in one thread, step by step: the product's own decisions and transactions over the in-memory store."""
