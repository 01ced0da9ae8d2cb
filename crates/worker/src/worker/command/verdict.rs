//! The difference between a finished program and a program that has stopped on request.

use sweep_job::{Failure, FailureKind};

/// Facts about the end of a program.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct Facts {
    /// The program has ended with exit code 0.
    pub(super) is_success: bool,
    /// The program has written reports.
    pub(super) has_reported: bool,
    /// The program was asked to stop.
    pub(super) is_asked: bool,
    /// SIGTERM was sent.
    pub(super) is_terminated: bool,
    /// The program has reported that it stops early.
    pub(super) says_stopped: bool,
    /// The newest step.
    pub(super) step: Option<u64>,
    /// Number of steps in all.
    pub(super) total: Option<u64>,
}

/// Returns the failure of a program that has ended early, even if it reports success.
pub(super) fn stopped(facts: &Facts) -> Option<Failure> {
    let position = match (facts.step, facts.total) {
        (Some(step), Some(total)) => format!(" at step {step} of {total}"),
        (Some(step), None) => format!(" at step {step}"),
        (None, _) => String::new(),
    };
    let stop_failure = |message: String| Some(Failure { kind: FailureKind::Stopped, message });
    if facts.says_stopped {
        let remark = if facts.is_asked { "" } else { " without a request to stop" };
        return stop_failure(format!("the program stopped{position}{remark}"));
    }
    if !facts.is_success || !(facts.is_asked || facts.is_terminated) {
        return None;
    }
    if facts.has_reported {
        // Steps count from 0 or from 1.
        return match (facts.step, facts.total) {
            (Some(step), Some(total)) if step.saturating_add(1) >= total => None,
            (_, Some(_)) => stop_failure(format!("the program ended{position} after a request to stop")),
            (_, None) => stop_failure(format!(
                "the program ended{position} after a request to stop; without `total` in its reports it is not known \
                 whether it has finished"
            )),
        };
    }
    // A program that does not read requests to stop is interrupted only by SIGTERM.
    facts.is_terminated.then(|| Failure {
        kind: FailureKind::Crash,
        message: "it received SIGTERM; in a script, `kill 0` also signals its worker".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: Facts = Facts {
        is_success: true,
        has_reported: false,
        is_asked: false,
        is_terminated: false,
        says_stopped: false,
        step: None,
        total: None,
    };

    #[test]
    fn what_ended_early_is_no_result() {
        let kind = |facts: Facts| stopped(&facts).map(|failure| failure.kind);
        let reported_facts = Facts { has_reported: true, is_asked: true, step: Some(8), total: Some(10), ..QUIET };
        assert_eq!(kind(QUIET), None);
        assert_eq!(kind(Facts { is_asked: true, ..QUIET }), None, "it has not heard of it");
        assert_eq!(kind(Facts { is_terminated: true, ..QUIET }), Some(FailureKind::Crash));
        assert_eq!(kind(reported_facts), Some(FailureKind::Stopped));
        assert_eq!(kind(Facts { total: None, ..reported_facts }), Some(FailureKind::Stopped));
        assert_eq!(kind(Facts { step: Some(9), ..reported_facts }), None, "it has finished anyway");
        assert_eq!(kind(Facts { step: Some(9), is_terminated: true, ..reported_facts }), None);
        assert_eq!(kind(Facts { step: Some(9), says_stopped: true, ..reported_facts }), Some(FailureKind::Stopped));
        assert_eq!(
            kind(Facts { is_asked: false, ..reported_facts }),
            None,
            "without a request, it knows when it is done"
        );
        assert_eq!(kind(Facts { is_success: false, ..reported_facts }), None, "it has its own failure");
    }
}
