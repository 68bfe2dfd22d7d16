//! The independent checker of what is about to be written.
