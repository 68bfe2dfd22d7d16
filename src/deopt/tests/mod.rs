//! Ramps, executed.

#![allow(unsafe_code)]

mod assumptions;
mod lean;
mod leaving;
mod locations;
mod machine;
mod probe;
mod process;
mod registers;
mod relocation;
mod site;
mod walk;
