//! Making cores execute what was written.
