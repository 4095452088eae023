#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| triad_fuzz::run("answer", bytes));
