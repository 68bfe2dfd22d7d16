//! Objects compiled without stack maps.
