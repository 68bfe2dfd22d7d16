// A function that is called by one of the same object, where it may be another's (-fsemantic-interposition).
long inside(long x) { return x * 3; }
long calls_inside(long x) { return inside(x) + 1; }
