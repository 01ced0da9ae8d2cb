//! The observation of programs by the kernel on this machine.

/// Environment variable that switches the kernel's reports off.
const SWITCH: &str = "SWEEP_OBSERVE";

/// Checks that the kernel of this machine can report the system calls of programs.
///
/// # Errors
/// The reason why it cannot, as a phrase.
pub fn check() -> Result<(), String> {
    if std::env::var(SWITCH).is_ok_and(|switch| switch == "off") {
        return Err(format!("`{SWITCH}` is `off`"));
    }
    if sweep_observer::is_supported() {
        return Ok(());
    }
    Err("the kernel reports no system calls here (seccomp user notification)".to_owned())
}
