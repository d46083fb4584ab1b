#![no_main]
#![allow(dead_code, reason = "each target uses its own part")]

#[path = "../../crates/agent-journal/tests/support/mod.rs"]
mod support;
#[path = "../targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::model(data));
