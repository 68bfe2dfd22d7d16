//! Loading relocatable objects.
