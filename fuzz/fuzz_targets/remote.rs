#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| patchpoint_remote::fuzzing::protocol(data));
