//! Sites and the table of them.
