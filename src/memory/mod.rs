//! Where bytes are written, and how.
