#![no_main]

#[path = "../../crates/agent-journal/tests/support/mod.rs"]
mod support;
#[path = "../targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::import(data));
