//! The host of the examples as another process: this program, started once more.
#![allow(dead_code, unused_imports, reason = "each example and test uses a part")]

pub(crate) mod scan;

use std::process::Command;
use std::sync::Arc;

use patchpoint::Result;
use patchpoint::addr::CodeAddr;
use patchpoint::engine::EngineBuilder;
use patchpoint::memory::PlacedSegments;
use patchpoint_remote::{Executor, Service, Thread};

use crate::host::{Call, Host, Symbol, There};

pub(crate) use scan::Watched;

/// What an example's executor is started with.
pub(crate) const AS_EXECUTOR: &str = "--as-executor";

const STACK: u64 = 256 << 10;

/// Starts this program as the executor.
pub(crate) fn spawn() -> std::result::Result<Executor, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command.arg(AS_EXECUTOR);
    Executor::spawn(command).map_err(|error| error.to_string())
}

/// Is the executor, until its controller is done.
pub(crate) fn serve(symbols: &[Symbol]) -> std::result::Result<(), String> {
    let add = |service: Service, (name, at): &Symbol| service.symbol(*name, CodeAddr::new(*at as u64));
    let service = symbols.iter().fold(Service::new(), add);
    // SAFETY: the controller is the process that has started this one.
    unsafe { service.run_stdin() }.map_err(|error| error.to_string())
}

/// The executor as the examples' host.
pub(crate) fn host(executor: Executor) -> Host {
    Host::There(Arc::new(executor))
}

impl There for Executor {
    fn engine(&self) -> EngineBuilder {
        Executor::engine(self)
    }

    fn symbol(&self, name: &str) -> Result<CodeAddr> {
        Ok(Executor::symbol(self, name)?.expect("the executor is this program"))
    }

    fn share(&self, len: u64) -> Result<PlacedSegments> {
        Ok(Executor::share(self, len)?)
    }

    fn caller(&self) -> Result<Box<dyn Call>> {
        Ok(Box::new(self.thread(STACK)?))
    }
}

impl Call for Thread {
    fn call(&mut self, function: CodeAddr, args: [u64; 3]) -> Result<u64> {
        Ok(Thread::call(self, function, &args)?)
    }
}
