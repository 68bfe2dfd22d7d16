//! Exit stubs, executed. Those in the machine code of x86-64 are for it alone; other architectures
//! have theirs in their modules.

#![allow(unsafe_code)]

mod assumptions;
#[cfg(target_arch = "x86_64")]
mod leaving;
#[cfg(target_arch = "x86_64")]
mod live_registers;
#[cfg(target_arch = "x86_64")]
mod locations;
#[cfg(target_arch = "x86_64")]
mod machine;
#[cfg(target_arch = "x86_64")]
mod mirrored;
#[cfg(target_arch = "x86_64")]
mod probe;
#[cfg(target_arch = "x86_64")]
mod process;
#[cfg(target_arch = "x86_64")]
mod registers;
#[cfg(target_arch = "x86_64")]
mod relocation;
#[cfg(target_arch = "x86_64")]
mod site;
#[cfg(target_arch = "x86_64")]
mod walk;
