//! Where memory comes from, on Linux. The allocator of musl makes threads wait for each other, and
//! with that of glibc a history takes a twentieth longer to read. What this one does by itself is
//! meant for servers: a command that lives for some milliseconds would feel it.

use std::ffi::{c_int, c_long};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Settings by the numbers they have in the third version.
const PURGE_DELAY: c_int = 15;
const ARENA_RESERVE: c_int = 23;

/// Addresses that are set aside at a time, in KiB. A list of its pages is kept of all of them.
const RESERVE: c_long = 32 << 10;

#[expect(unsafe_code, reason = "the allocator is a C library")]
unsafe extern "C" {
    safe fn mi_option_set(option: c_int, value: c_long);
}

#[used]
#[expect(unsafe_code, reason = "memory is needed before the program begins")]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = before_main;

extern "C" fn before_main() {
    mi_option_set(ARENA_RESERVE, RESERVE);
}

/// At the end the system takes everything back at once: nothing need be given to it before.
pub(crate) fn leave() {
    mi_option_set(PURGE_DELAY, -1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(unsafe_code, reason = "the allocator is a C library")]
    unsafe extern "C" {
        safe fn mi_option_get(option: c_int) -> c_long;
        safe fn mi_option_get_size(option: c_int) -> usize;
    }

    /// Another version of the allocator may number its settings otherwise: few of them are sizes,
    /// which are told in bytes, and none but the delay begins with a second.
    #[test]
    fn settings_have_the_numbers_we_think() {
        assert_eq!(mi_option_get_size(ARENA_RESERVE), 32 << 20);
        assert_eq!(mi_option_get(PURGE_DELAY), 1000);
        leave();
        assert_eq!(mi_option_get(PURGE_DELAY), -1);
    }
}
