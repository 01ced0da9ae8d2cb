//! Private views of folders for programs.

#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "mounts between fork and exec")]
mod view;

#[cfg(target_os = "linux")]
pub use self::view::View;
