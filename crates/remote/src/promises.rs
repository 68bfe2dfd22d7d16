//! Every promise of this crate's users, once as a safe call, which must not compile, and once as an
//! `unsafe` one, which must: as the engine's crate has it.

/// Both examples of each: what is at hand, and the call.
macro_rules! promises {
    ($($name:ident($($given:literal),*) $call:literal;)*) => { $(
        #[doc = concat!(
            "```compile_fail,E0133\n",
            "fn promise(", $($given, ", ",)* ") {\n    let _ = ", $call, ";\n}\n",
            "```\n\n```no_run\n",
            "fn promise(", $($given, ", ",)* ") {\n    let _ = unsafe { ", $call, " };\n}\n",
            "```\n",
        )]
        pub enum $name {}
    )* };
}

promises! {
    ProcessOpen() "patchpoint_remote::foreign::Process::open(1, std::time::Duration::ZERO)";
    ServiceRun("service: patchpoint_remote::Service", "fd: std::os::fd::OwnedFd") "service.run(fd)";
    ServiceRunStdin("service: patchpoint_remote::Service") "service.run_stdin()";
    ServiceConnect("service: patchpoint_remote::Service", "token: &patchpoint_remote::Token")
        "service.connect(\"name\", token)";
}
