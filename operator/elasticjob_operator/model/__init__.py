"""Records of the operator, without I/O."""
