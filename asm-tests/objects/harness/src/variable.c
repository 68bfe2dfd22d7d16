// A harness that replaces a variable that is local to the parser.
long failures = 77;
