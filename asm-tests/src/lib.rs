//! asm-tests
