//! Measurement of the process itself.

/// Largest resident memory of this process so far, in bytes; `None` where the system does not say.
///
/// Read from `VmHWM` in `/proc/self/status`, which counts the whole process: the program's own pages, the data mapped
/// and touched, and everything allocated on the host.
pub(crate) fn peak_memory() -> Option<f64> {
    let status = fs_err::read_to_string("/proc/self/status").ok()?;
    parse_peak(&status)
}

fn parse_peak(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024.0)
}

/// The median of `values`, in place; `None` if there are none.
pub(crate) fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() {
        0 => None,
        length if length % 2 == 0 => Some(f64::midpoint(values[half - 1], values[half])),
        _ => Some(values[half]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peak_is_read_in_bytes() {
        assert_eq!(parse_peak("VmPeak:\t  100 kB\nVmHWM:\t   12 kB\n"), Some(12_288.0));
        assert_eq!(parse_peak("VmPeak:\t  100 kB\n"), None);
    }

    #[test]
    fn medians() {
        assert_eq!(median(&mut []), None);
        assert_eq!(median(&mut [3.0]), Some(3.0));
        assert_eq!(median(&mut [4.0, 1.0, 3.0]), Some(3.0));
        assert_eq!(median(&mut [4.0, 1.0, 3.0, 2.0]), Some(2.5));
    }
}
