//! What a runtime asks to be written into a site, and its assembly.
