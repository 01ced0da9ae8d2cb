//! The observation of programs by the kernel on this machine.

/// Variable that switches the kernel's reports off.
const SWITCH: &str = "SWEEP_OBSERVE";

/// Checks that the kernel reports the calls of programs here.
///
/// # Errors
/// The reason if it does not.
pub fn check() -> Result<(), String> {
    if std::env::var(SWITCH).is_ok_and(|switch| switch == "off") {
        return Err(format!("`{SWITCH}` is `off`"));
    }
    if sweep_observer::is_supported() {
        return Ok(());
    }
    Err("the kernel reports no system calls here (seccomp user notification)".to_owned())
}
