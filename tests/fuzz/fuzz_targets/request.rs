#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream::wire::fuzz::fuzz_request(data));
