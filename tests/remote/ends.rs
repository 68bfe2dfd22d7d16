//! What one side finds when the other ends.
