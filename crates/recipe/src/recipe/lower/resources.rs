//! `resources`: the resources that a job uses. Resources are not part of a key.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Value as Json, json};
use sweep_job::{Value, units::parse_bytes};

use super::Lower;
use crate::recipe::{
    keys::{Mapping as _, Shape, Size, Whole, mapping},
    node::{Node, NodeKind},
    schema::{SIZE, whole},
};

/// Resources of the machine that a job uses while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Resources {
    /// Machines; the rest is of each of them. Default: one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<usize>,
    /// Processor cores. Default: one for a program, all of them for other tasks.
    pub cpus: Option<ResourceCount>,
    /// GPUs. Default: one for a job that computes on GPUs, and for a program where there are any.
    pub gpus: Option<ResourceCount>,
    /// Memory on each of its GPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_memory: Option<GpuMemory>,
    /// Main memory that is reserved for the job while it runs, in bytes.
    pub memory: Option<u64>,
    /// True if no other job may run at the same time, because the job measures time.
    pub exclusive: bool,
}

/// A number of cores or GPUs, or a part of one, in thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResourceCount(u32);

/// Memory that a job uses on each of its GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GpuMemory {
    /// A number of bytes.
    Bytes(u64),
    /// The measured use of earlier jobs of the same shape.
    Measured,
}

/// The most GPUs of a job.
const MAX_GPUS: u32 = 1024;
/// The most cores of a job.
const MAX_CORES: u32 = 4096;
/// Thousandths of a whole core or GPU.
const THOUSANDTHS: u32 = 1000;
/// The word for measured memory.
const MEASURED: &str = "measured";

impl Resources {
    /// Number of machines.
    pub fn nodes(&self) -> usize {
        self.nodes.unwrap_or(1).max(1)
    }

    /// True if other jobs may use the rest of the job's GPU.
    pub fn shares_gpu(&self) -> bool {
        match (self.gpus, self.gpu_memory) {
            (Some(count), _) => count.share().is_some(),
            (None, memory) => memory.is_some(),
        }
    }
}

impl ResourceCount {
    /// `count` whole cores or GPUs.
    pub fn whole(count: usize) -> Self {
        Self(u32::try_from(count).unwrap_or(MAX_CORES).min(MAX_CORES) * THOUSANDTHS)
    }

    /// A number of cores or GPUs; `None` if it is neither a whole number up to 4096 nor a part of one in thousandths.
    pub fn of(number: f64) -> Option<Self> {
        let thousandths = number * f64::from(THOUSANDTHS);
        let rounded = thousandths.round();
        let is_possible = (0.0..=f64::from(MAX_CORES * THOUSANDTHS)).contains(&rounded);
        if !is_possible || (thousandths - rounded).abs() > 1e-6 {
            return None;
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 4096000, and whole")]
        let count = rounded as u32;
        (count <= THOUSANDTHS || count.is_multiple_of(THOUSANDTHS)).then_some(Self(count))
    }

    /// The number of cores or GPUs; 1 for a part of one.
    pub fn count(self) -> usize {
        self.0.div_ceil(THOUSANDTHS) as usize
    }

    /// Thousandths of the one core or GPU of which it is a part; `None` for whole ones.
    pub fn share(self) -> Option<u16> {
        u16::try_from(self.0).ok().filter(|share| *share > 0 && u32::from(*share) < THOUSANDTHS)
    }
}

impl Serialize for ResourceCount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.share() {
            Some(share) => serializer.serialize_f64(f64::from(share) / f64::from(THOUSANDTHS)),
            None => serializer.serialize_u64(self.count() as u64),
        }
    }
}

impl<'de> Deserialize<'de> for ResourceCount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = f64::deserialize(deserializer)?;
        Self::of(number).ok_or_else(|| de::Error::custom(format!("{number} is not a number of cores or GPUs")))
    }
}

/// The shape of a number of cores or GPUs, or of a part of one.
pub(in crate::recipe) struct Counted {
    least: u32,
    most: u32,
    /// Names of one and of several.
    names: (&'static str, &'static str),
}

impl Counted {
    const CORES: Self = Self { least: 1, most: MAX_CORES, names: ("core", "cores") };
    const GPUS: Self = Self { least: 0, most: MAX_GPUS, names: ("GPU", "GPUs") };
}

impl Shape for Counted {
    type Value = ResourceCount;

    fn read(&self, lower: &mut Lower<'_>, node: &Node, key: &str) -> Option<ResourceCount> {
        let Self { least, most, names: (one, several) } = self;
        let number = match &node.kind {
            NodeKind::Scalar(value @ (Value::Int(_) | Value::Float(_))) => value.as_f64(),
            _ => None,
        };
        let in_range = |count: &ResourceCount| {
            count.share().is_some() || (*least as usize..=*most as usize).contains(&count.count())
        };
        let count = number.and_then(ResourceCount::of).filter(in_range);
        if count.is_none() {
            let message =
                format!("`{key}` must be an integer from {least} to {most}, or a fraction of one {one} in thousandths");
            let help = format!("write `{key}: 1`, or `{key}: 0.25` for a quarter of a {one}");
            lower.problem(node.span, message, format!("not a number of {several}"), help);
        }
        count
    }

    fn schema(&self) -> Json {
        json!({ "anyOf": [
            { "type": "integer", "minimum": self.least, "maximum": self.most },
            { "type": "number", "minimum": 0.001, "maximum": 1 },
        ] })
    }

    fn accepts(&self) -> String {
        format!("an integer from {} to {}, or a fraction of one {}: `0.25`", self.least, self.most, self.names.0)
    }
}

/// The shape of an amount of memory on a GPU.
#[derive(Default)]
pub(in crate::recipe) struct MemoryOfGpu;

impl Shape for MemoryOfGpu {
    type Value = GpuMemory;

    fn read(&self, lower: &mut Lower<'_>, node: &Node, key: &str) -> Option<GpuMemory> {
        let text = if let NodeKind::Scalar(Value::Text(text)) = &node.kind { text.as_str() } else { "" };
        if text == MEASURED {
            return Some(GpuMemory::Measured);
        }
        if parse_bytes(text).is_ok_and(|bytes| bytes == 0) {
            let message = format!("`{key}` must be more than 0 bytes");
            lower.problem(node.span, message, "zero memory", format!("leave it out, or write `{key}: {MEASURED}`"));
            return None;
        }
        Size.read(lower, node, key).map(GpuMemory::Bytes)
    }

    fn schema(&self) -> Json {
        json!({
            "type": "string",
            "pattern": whole(&format!("(?:{SIZE}|{MEASURED})")),
            "patternErrorMessage": "Expected a size with its unit, such as `8GiB`, or `measured`.",
        })
    }

    fn accepts(&self) -> String {
        format!("a size: `8GiB`, `512MB`; or `{MEASURED}`")
    }
}

mapping! {
    /// The keys of `resources`.
    struct ResourceKeys = "resources" {
        /// The number of nodes over which the processes of a program are spread. Default: 1.
        ///
        /// More than 1 requires `launch` and an executor that provides several nodes, such as Slurm. All other
        /// resources are per node. See [several nodes](programs.md#several-nodes).
        nodes: Whole = Whole { range: 1..=1024, of: "nodes" },
        /// The number of CPU cores that a job uses. Default: 1 for a program, or 1 for each of its processes; all cores
        /// for other tasks.
        ///
        /// A program whose times are measured has all cores by default, and a job on a GPU its share of the cores. A
        /// program that computes with 8 threads needs `cpus: 8`. A number below 1 is a fraction of a core, for a
        /// program that mostly waits for servers or files: with `cpus: 0.25`, four jobs run on each core.
        cpus: Counted = Counted::CORES,
        /// The number of GPUs that are reserved for a job. Default: 1 for a job that computes on GPUs, and, if the
        /// machine has GPUs, for each process of a program without `cpus`.
        ///
        /// A job that computes on the CPU gets no GPU. For a program whose times are measured, no GPU is reserved by
        /// default, and the program sees all GPUs. `gpus: 0` reserves no GPU either. The process of a job sees only
        /// its own GPUs (`CUDA_VISIBLE_DEVICES`). A number below 1 is a fraction of a GPU: other jobs may use the
        /// rest of the GPU, see [shares of a GPU](#shares-of-a-gpu).
        gpus: Counted = Counted::GPUS,
        /// Memory that a job uses on each of its GPUs, such as `8GiB`, or `measured` for the memory that earlier jobs
        /// of the same shape used.
        ///
        /// Without `gpus`, the job shares one GPU with other jobs, as far as the memory of the GPU suffices. The
        /// scheduler uses this value. It is not enforced as a limit. Default for a fraction of a GPU: `measured`.
        gpu_memory: MemoryOfGpu,
        /// Main memory that is reserved for a job while it runs, such as `4GiB`.
        ///
        /// The scheduler uses this value. It is not enforced as a limit.
        memory: Size,
    }
}

impl Lower<'_> {
    /// Reads `resources: { nodes, cpus, gpus, gpu_memory, memory }`; `exclusive` is a key of the step.
    pub(super) fn resources(&mut self, node: &Node) -> Resources {
        let keys = ResourceKeys::read_or_empty(self, node, "`resources`");
        Resources {
            nodes: keys.nodes.value.and_then(|nodes| usize::try_from(nodes).ok()),
            cpus: keys.cpus.value,
            gpus: keys.gpus.value,
            gpu_memory: keys.gpu_memory.value,
            memory: keys.memory.value,
            exclusive: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_gpus_is_whole_or_a_part_of_one() {
        let parts = |number: f64| ResourceCount::of(number).map(|count| (count.count(), count.share()));
        assert_eq!(parts(0.0), Some((0, None)));
        assert_eq!(parts(0.25), Some((1, Some(250))));
        assert_eq!(parts(0.3), Some((1, Some(300))), "a tenth has no exact binary form");
        assert_eq!(parts(0.001), Some((1, Some(1))));
        assert_eq!(parts(1.0), Some((1, None)));
        assert_eq!(parts(8.0), Some((8, None)));
        for number in [-1.0, 0.0005, 0.3333, 1.5, 4097.0, f64::NAN, f64::INFINITY] {
            assert_eq!(parts(number), None, "{number}");
        }
        for number in ["0", "0.25", "2"] {
            let count: ResourceCount = serde_json::from_str(number).unwrap();
            assert_eq!(serde_json::to_string(&count).unwrap(), number);
        }
        assert!(serde_json::from_str::<ResourceCount>("1.5").is_err());
    }
}
