//! Any bytes as a policy, with serde_json as the judge.

#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| oarbank_agent_fuzz::policy::check(data));

/// Without the fuzzer: the files named as arguments, once each.
#[cfg(not(fuzzing))]
fn main() {
    for name in std::env::args_os().skip(1) {
        let data = std::fs::read(&name).expect("a file to check");
        oarbank_agent_fuzz::policy::check(&data);
    }
}
