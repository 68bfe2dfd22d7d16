//! Ramps, executed.

#![allow(unsafe_code)]

mod leaving;
mod locations;
mod machine;
mod probe;
mod process;
mod registers;
mod relocation;
mod site;
