"""End to end: the whole product on a real kind cluster, through kubectl alone, as a user would."""
