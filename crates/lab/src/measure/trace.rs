//! A trace of training steps in the trace-event format, which Perfetto and `chrome://tracing` open.
//!
//! One row has the steps, one the calls of the host, and, where operations are asynchronous, one has the activity of
//! the device after the call: from the call to the moment at which the device is idle. The trace waits for the device
//! after every part, so parts do not overlap as they would without it.

use std::{io::Write as _, path::Path, time::Instant};

use fs_err as fs;
use serde_json::{Value, json};

use crate::backend::DeviceMemory;

/// Steps that a trace has room for.
const STEPS: usize = 200;

/// A row of the trace.
const STEP_ROW: u32 = 1;
const HOST_ROW: u32 = 2;
const DEVICE_ROW: u32 = 3;

/// Events so far.
#[derive(Debug)]
pub(crate) struct Trace {
    began: Instant,
    events: Vec<Value>,
    steps: usize,
}

impl Trace {
    pub(crate) fn begin(process: &str) -> Self {
        let name = |row: u32, name: &str| json!({"name": "thread_name", "ph": "M", "pid": 1, "tid": row, "ts": 0, "args": {"name": name}});
        let process =
            json!({"name": "process_name", "ph": "M", "pid": 1, "tid": 0, "ts": 0, "args": {"name": process}});
        let rows = [name(STEP_ROW, "steps"), name(HOST_ROW, "host"), name(DEVICE_ROW, "device")];
        let events = std::iter::once(process).chain(rows).collect();
        Self { began: Instant::now(), events, steps: 0 }
    }

    /// A part of a step: `call_end` is the return of the call, `end` the time at which the device was idle after it.
    pub(crate) fn span(&mut self, name: &str, start: Instant, call_end: Instant, end: Instant, has_device: bool) {
        self.complete(HOST_ROW, "host", name, start, if has_device { call_end } else { end });
        if has_device {
            self.complete(DEVICE_ROW, "device", name, start, end);
        }
    }

    /// An operation, with a wait for the device at its end.
    pub(crate) fn operation(&mut self, name: &str, start: Instant, end: Instant) {
        self.complete(DEVICE_ROW, "operation", name, start, end);
    }

    /// A whole step, which is the last of its events.
    pub(crate) fn step(&mut self, iteration: usize, start: Instant, end: Instant) {
        self.visit(&format!("step {iteration}"), start, end);
    }

    /// Adds a step like [`step`](Self::step), with a name.
    pub(crate) fn visit(&mut self, name: &str, start: Instant, end: Instant) {
        self.complete(STEP_ROW, "step", name, start, end);
        self.steps += 1;
    }

    /// Memory that the device's allocator has handed out.
    pub(crate) fn memory(&mut self, time: Instant, memory: DeviceMemory) {
        let args = json!({"in use": memory.in_use, "reserved": memory.reserved});
        let ts = self.microseconds(time);
        self.push(json!({"name": "device memory", "ph": "C", "pid": 1, "tid": 0, "ts": ts, "args": args}));
    }

    fn complete(&mut self, row: u32, category: &str, name: &str, start: Instant, end: Instant) {
        let dur = end.duration_since(start).as_secs_f64() * 1e6;
        let ts = self.microseconds(start);
        self.push(json!({"name": name, "cat": category, "ph": "X", "pid": 1, "tid": row, "ts": ts, "dur": dur}));
    }

    fn push(&mut self, event: Value) {
        if self.steps < STEPS {
            self.events.push(event);
        }
    }

    fn microseconds(&self, time: Instant) -> f64 {
        time.duration_since(self.began).as_secs_f64() * 1e6
    }

    /// Writes the file `path`.
    pub(crate) fn write(&self, path: &Path) -> std::io::Result<()> {
        let mut file = std::io::BufWriter::new(fs::File::create(path)?);
        let document = json!({"displayTimeUnit": "ms", "traceEvents": self.events});
        serde_json::to_writer(&mut file, &document)?;
        file.flush()
    }
}
