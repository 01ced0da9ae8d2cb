//! Protection from libraries whose readers panic on damaged files.

use std::{
    cell::Cell,
    panic::{self, AssertUnwindSafe},
    sync::Once,
};

thread_local! {
    /// True while the messages of this thread's panics are not printed.
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs `read`, and returns `None` if it panics, without printing the panic's message. The caller must not use values
/// that `read` was changing when it panicked.
pub fn unless_it_panics<T>(read: impl FnOnce() -> T) -> Option<T> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let print = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !IS_QUIET.get() {
                print(info);
            }
        }));
    });
    let was_quiet = IS_QUIET.replace(true);
    let result = panic::catch_unwind(AssertUnwindSafe(read));
    IS_QUIET.set(was_quiet);
    result.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_no_result() {
        assert_eq!(unless_it_panics(|| 7), Some(7));
        assert_eq!(unless_it_panics(|| panic!("damaged")), None::<()>);
        assert!(!IS_QUIET.get());
    }
}
