//! A backend that hands every operation to another one, waits for it, and notes its time and memory.
//!
//! The router backend of Burn describes each operation as a value; its client here executes the value on the other
//! backend. Custom kernels of the lab are not used: the operations are Burn's.

use std::{
    cell::RefCell,
    fmt::{self, Write as _},
    future::Future,
    marker::PhantomData,
    pin::Pin,
    time::Instant,
};

use burn::tensor::{
    DType, Shape, TensorData,
    backend::{DTypeUsageSet, ExecutionError},
};
use burn_ir::{BackendIr, OperationIr, TensorId, TensorIr};
use burn_router::{BackendRouter, MultiBackendBridge, RouterTensor, Runner, RunnerChannel, RunnerClient};

use sweep_job::Backend;

use super::{Compute, DeviceMemory};
use crate::{ops, prune::Selects};

/// The backend `B`, with every operation noted on the thread that calls it.
pub(crate) type Profiled<B> = BackendRouter<Channel<B>>;

/// Characters of a description that has the name of an operation.
const NAME: usize = 64;

thread_local! {
    /// The operations since [`begin`], if they are noted.
    static NOTED: RefCell<Option<(Counter, Vec<Operation>)>> = const { RefCell::new(None) };
}

/// A counter of the heap, for devices without an allocator.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counter {
    /// Begins to count.
    pub(crate) begin: fn(),
    /// Ends the count, and returns the maximum number of bytes that were allocated at the same time; `None` if they cannot
    /// be counted.
    pub(crate) end: fn() -> Option<f64>,
}

/// An operation that was executed.
#[derive(Debug, Clone)]
pub(crate) struct Operation {
    /// Its name, in snake case; one on whole numbers or truth values has the prefix `int_` or `bool_`.
    pub(crate) name: String,
    pub(crate) group: Group,
    /// The shape of its first output.
    pub(crate) shape: Vec<usize>,
    /// Begin of its call.
    pub(crate) started: Instant,
    /// The moment at which the device had finished it.
    pub(crate) ended: Instant,
    /// Bytes that the operation allocated: the peak on the heap, or the increase in the device allocator's memory. `None` if neither can be
    /// counted.
    pub(crate) bytes: Option<f64>,
}

/// A kind of operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Group {
    /// Matrix products and convolutions.
    Product,
    /// Operations on each number by itself.
    Pointwise,
    /// Sums, means and the like.
    Reduction,
    /// Copies, selections and views.
    Movement,
    /// All others.
    Other,
}

impl Group {
    /// Every group, with its name in a table.
    pub(crate) const ALL: [(Self, &'static str); 5] = [
        (Self::Product, "product"),
        (Self::Pointwise, "pointwise"),
        (Self::Reduction, "reduction"),
        (Self::Movement, "movement"),
        (Self::Other, "other"),
    ];
}

/// Begins to note the operations of this thread, from none.
pub(crate) fn begin(counter: Counter) {
    NOTED.with_borrow_mut(|log| *log = Some((counter, Vec::new())));
}

/// Ends the profile, and returns the operations.
pub(crate) fn end() -> Vec<Operation> {
    NOTED.with_borrow_mut(Option::take).map(|(_, operations)| operations).unwrap_or_default()
}

/// The way to the other backend.
pub(crate) struct Channel<B>(PhantomData<B>);

impl<B> Clone for Channel<B> {
    fn clone(&self) -> Self {
        Self(PhantomData)
    }
}

/// The bridge between devices. There is one device.
pub(crate) struct Bridge<B>(PhantomData<B>);

impl<B: BackendIr> MultiBackendBridge for Bridge<B> {
    type TensorHandle = B::Handle;
    type Device = B::Device;

    fn change_backend_float(tensor: B::Handle, _: Shape, _: &B::Device) -> B::Handle {
        tensor
    }

    fn change_backend_int(tensor: B::Handle, _: Shape, _: &B::Device) -> B::Handle {
        tensor
    }

    fn change_backend_bool(tensor: B::Handle, _: Shape, _: &B::Device) -> B::Handle {
        tensor
    }
}

/// The executor of operations.
#[derive(Clone)]
pub(crate) struct Client<B: BackendIr>(Runner<B>);

impl<B: BackendIr + Compute> RunnerClient for Client<B> {
    type Device = B::Device;

    fn register_op(&self, operation: OperationIr) {
        let counter = NOTED.with_borrow(|log| log.as_ref().map(|(counter, _)| *counter));
        // Giving memory back computes nothing.
        let Some(counter) = counter.filter(|_| !matches!(operation, OperationIr::Drop(_))) else {
            return self.0.register_op(operation);
        };
        let (name, group) = described(&operation);
        let shape = operation.outputs().next().map(|output| output.shape.to_vec()).unwrap_or_default();
        let device = self.0.device();
        let start_memory = B::device_memory(&device);
        if start_memory.is_none() {
            (counter.begin)();
        }
        let started = Instant::now();
        self.0.register_op(operation);
        // A failure of the device is found by the next reading, which can report it.
        let _ = B::sync(&device);
        let ended = Instant::now();
        let bytes = match start_memory.zip(B::device_memory(&device)) {
            Some((start_memory, end_memory)) => Some(end_memory.in_use.saturating_sub(start_memory.in_use) as f64),
            None => (counter.end)(),
        };
        let operation = Operation { name, group, shape, started, ended, bytes };
        NOTED.with_borrow_mut(|log| {
            if let Some((_, log)) = log {
                log.push(operation);
            }
        });
    }

    fn read_tensor_async(
        &self,
        tensor: TensorIr,
    ) -> Pin<Box<dyn Future<Output = Result<TensorData, ExecutionError>> + Send>> {
        self.0.read_tensor_async(tensor)
    }

    fn sync(&self) -> Result<(), ExecutionError> {
        self.0.sync()
    }

    fn create_empty_handle(&self) -> TensorId {
        self.0.create_empty_handle()
    }

    fn register_tensor_data(&self, data: TensorData) -> RouterTensor<Self> {
        let description = self.0.register_tensor_data_desc(data);
        RouterTensor::new(description.id, description.shape, description.dtype, self.clone())
    }

    fn device(&self) -> B::Device {
        self.0.device()
    }

    fn seed(&self, seed: u64) {
        self.0.seed(seed);
    }

    fn dtype_usage(&self, dtype: DType) -> DTypeUsageSet {
        self.0.dtype_usage(dtype)
    }
}

impl<B: BackendIr + Compute> RunnerChannel for Channel<B> {
    type Device = B::Device;
    type Bridge = Bridge<B>;
    type Client = Client<B>;
    type FloatElem = B::FloatElem;
    type IntElem = B::IntElem;
    type BoolElem = B::BoolElem;

    fn name(device: &B::Device) -> String {
        B::name(device)
    }

    fn init_client(device: &B::Device) -> Client<B> {
        Client(Runner::new(device.clone()))
    }

    fn get_tensor_handle(tensor: &TensorIr, client: &Client<B>) -> B::Handle {
        client.0.get_tensor_handle(tensor)
    }

    fn register_tensor(client: &Client<B>, handle: B::Handle, shape: Shape, dtype: DType) -> RouterTensor<Client<B>> {
        client.0.register_tensor(handle, shape, dtype, client.clone())
    }
}

impl<B: BackendIr + Compute> ops::Ops for Profiled<B> {}

impl<B: BackendIr + Compute> Selects for Profiled<B> {}

impl<B: BackendIr + Compute> Compute for Profiled<B> {
    const SYNCHRONOUS: bool = B::SYNCHRONOUS;
    const BACKEND: Backend = B::BACKEND;

    fn device_memory(device: &Self::Device) -> Option<DeviceMemory> {
        B::device_memory(device)
    }

    fn largest_tensor(device: &Self::Device) -> usize {
        B::largest_tensor(device)
    }
}

/// The first characters of a description.
struct Beginning(String);

impl fmt::Write for Beginning {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.push_str(text);
        // An error ends the description, which has shapes and numbers without end.
        if self.0.len() < NAME { Ok(()) } else { Err(fmt::Error) }
    }
}

/// The name and the group of an operation, from its description: `NumericFloat(F32, Add(BinaryOpIr { …`.
fn described(operation: &OperationIr) -> (String, Group) {
    let mut beginning = Beginning(String::new());
    let _cut = write!(beginning, "{operation:?}");
    let mut words = beginning.0.split('(');
    let family = words.next().unwrap_or_default();
    let kind = words.next().unwrap_or_default();
    let kind = kind.rsplit(", ").next().unwrap_or_default();
    // Operations without a kind have only a name: `Init(InitOperationIr { …`.
    let kind = if kind.contains(' ') { family } else { kind };
    let prefix = match family {
        "BaseInt" | "NumericInt" | "Int" => "int_",
        "BaseBool" | "Bool" => "bool_",
        _ => "",
    };
    let name = snake_case(kind);
    let group = group(family, &name);
    (format!("{prefix}{name}"), group)
}

fn group(family: &str, name: &str) -> Group {
    const REDUCTIONS: [&str; 10] = ["sum", "mean", "prod", "max", "min", "arg", "cum", "any", "all", "sort"];
    let product = ["matmul", "linear", "conv", "attention"].iter().any(|word| name.starts_with(word));
    match family {
        // The gradient of a bias is a sum.
        "Module" if name.ends_with("bias_backward") => Group::Reduction,
        _ if product => Group::Product,
        "BaseFloat" | "BaseInt" | "BaseBool" if name.starts_with("mask") || name.starts_with("equal") => {
            Group::Pointwise
        }
        "Init" | "BaseFloat" | "BaseInt" | "BaseBool" => Group::Movement,
        "Module" if name.starts_with("embedding") => Group::Movement,
        "Module" | "Custom" => Group::Other,
        _ if REDUCTIONS.iter().any(|word| name.starts_with(word)) => Group::Reduction,
        _ => Group::Pointwise,
    }
}

fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for (index, letter) in name.char_indices() {
        if letter.is_ascii_uppercase() && index > 0 {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

#[cfg(test)]
mod tests {
    use burn::{
        backend::{Flex, flex::FlexDevice},
        tensor::{Int, Tensor},
    };

    use super::*;

    #[test]
    fn operations_are_noted_by_name_and_compute_the_same() {
        type B = Profiled<Flex>;
        let device = FlexDevice;
        let x = Tensor::<B, 2>::from_floats([[1.0, 2.0], [3.0, 4.0]], &device);
        begin(Counter { begin: || {}, end: || Some(1.0) });
        let y = (x.clone().matmul(x.clone()) + x.clone()).reshape([4]).sum();
        let indices = x.argmax(1);
        let operations = end();
        assert_eq!(y.into_data().to_vec::<f32>().unwrap(), [64.0]);
        assert_eq!(Tensor::<B, 2, Int>::into_data(indices).iter::<i64>().collect::<Vec<_>>(), [1, 1]);
        let names: Vec<_> = operations.iter().map(|operation| (operation.name.as_str(), operation.group)).collect();
        let expected = [
            ("matmul", Group::Product),
            ("add", Group::Pointwise),
            ("reshape", Group::Movement),
            ("sum", Group::Reduction),
            ("arg_max", Group::Reduction),
        ];
        assert_eq!(names, expected);
        assert_eq!((&operations[0].shape[..], operations[0].bytes), (&[2, 2][..], Some(1.0)));
        assert!(end().is_empty(), "nothing is noted any more");
    }
}
