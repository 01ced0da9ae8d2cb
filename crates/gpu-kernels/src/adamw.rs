//! The step of AdamW in place: all changes of a parameter in one pass over its memory.
//!
//! In tensor operations it is about fifteen kernels that read and write all numbers each; here a weight costs the
//! minimum: 28 bytes, and 4 for a mask.

use cubecl::{prelude::*, server::Handle};
use sweep_job::tasks::AdamWFactors;

use crate::launch::{UNITS, array, cubes, empty, word};

/// The memory of a parameter: dense buffers of `length` numbers of 32 bits each. Nothing else may use the buffers that
/// change.
#[derive(Debug, Clone)]
pub struct Tensors {
    /// Number of weights, at most [`MAX_LAYER_WEIGHTS`](crate::MAX_LAYER_WEIGHTS).
    pub length: usize,
    /// The weights, which change.
    pub weights: Handle,
    /// The gradient of the weights.
    pub gradient: Handle,
    /// The means of the gradient and of its square, which change.
    pub moments: [Handle; 2],
    /// With AMSGrad the largest second mean so far, which changes.
    pub max_moment_2: Option<Handle>,
    /// True in the first step: then the means are 0, whatever their memory contains.
    pub first: bool,
    /// True if the largest second mean is the first one, whatever its memory contains.
    pub new_max: bool,
    /// Factor of the gradient: one number.
    pub gradient_factor: Option<Handle>,
    /// Factors of both means themselves, one number each, instead of `factors.keep`.
    pub keeps: Option<[Handle; 2]>,
    /// 1 where a number stays, 0 where it is pruned; and true if the means of pruned weights become 0 too.
    pub mask: Option<(Handle, bool)>,
}

/// Configuration that a kernel is compiled for. `factor`, `keeps` and `mask` are indices of its inputs, where the gradient
/// is input 0; 0 means that the input is absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Form {
    first: bool,
    largest: Largest,
    mask_moments: bool,
    factor: usize,
    keeps: usize,
    mask: usize,
}

/// State of the largest second mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Largest {
    /// The optimizer does not use it.
    Unused,
    /// This is the first one.
    New,
    /// There was one before.
    Known,
}

/// Changes a parameter and its moments by one step, and sets pruned numbers to 0.
pub fn adamw_step<R: Runtime>(client: &ComputeClient<R>, tensors: &Tensors, factors: &AdamWFactors) {
    let Tensors { length, .. } = *tensors;
    if length == 0 {
        return;
    }
    let mut inputs = vec![(&tensors.gradient, length)];
    let mut add_input = |handle, length| {
        inputs.push((handle, length));
        inputs.len() - 1
    };
    let factor = tensors.gradient_factor.as_ref().map_or(0, |handle| add_input(handle, 1));
    let keeps = tensors.keeps.as_ref().map_or(0, |[first, second]| {
        let keeps = add_input(first, 1);
        add_input(second, 1);
        keeps
    });
    let mask = tensors.mask.as_ref().map_or(0, |(handle, _)| add_input(handle, length));
    let form = Form {
        first: tensors.first,
        largest: match tensors.max_moment_2 {
            None => Largest::Unused,
            Some(_) if tensors.new_max => Largest::New,
            Some(_) => Largest::Known,
        },
        mask_moments: tensors.mask.as_ref().is_some_and(|(_, moments)| *moments),
        factor,
        keeps,
        mask,
    };
    let max = match &tensors.max_moment_2 {
        Some(max) => array(max, length),
        None => array(&empty(client, 1), 1),
    };
    update::launch::<R>(
        client,
        CubeCount::Static(cubes(length, 4, 65_535), 1, 1),
        CubeDim::new_1d(UNITS),
        array(&tensors.weights, length),
        array(&tensors.moments[0], length),
        array(&tensors.moments[1], length),
        max,
        inputs.into_iter().map(|(handle, length)| array(handle, length)).collect(),
        word(length),
        factors.keep[0],
        factors.keep[1],
        factors.new[0],
        factors.new[1],
        factors.step_size,
        factors.root_correction,
        factors.epsilon,
        factors.weight,
        form,
    );
}

#[cube(launch)]
fn update(
    weights: &mut Array<f32>,
    moment_1: &mut Array<f32>,
    moment_2: &mut Array<f32>,
    max_moment_2: &mut Array<f32>,
    inputs: &Sequence<Array<f32>>,
    length: u32,
    keep_1: f32,
    keep_2: f32,
    new_1: f32,
    new_2: f32,
    step_size: f32,
    root_correction: f32,
    epsilon: f32,
    weight: f32,
    #[comptime] form: Form,
) {
    let mut index = CUBE_POS_X * CUBE_DIM + UNIT_POS;
    while index < length {
        let number = index as usize;
        let mut gradient = inputs[0][number];
        if comptime!(form.factor > 0) {
            let factor = comptime!(form.factor);
            gradient *= inputs[factor][0];
        }
        let mut first = gradient * new_1;
        let mut second = gradient * gradient * new_2;
        if comptime!(!form.first) {
            if comptime!(form.keeps > 0) {
                let (keep_first, keep_second) = (comptime!(form.keeps), comptime!(form.keeps + 1));
                first += moment_1[number] * inputs[keep_first][0];
                second += moment_2[number] * inputs[keep_second][0];
            } else {
                first += moment_1[number] * keep_1;
                second += moment_2[number] * keep_2;
            }
        }
        let mut largest = second;
        if comptime!(form.largest == Largest::Known) {
            largest = max(max_moment_2[number], second);
        }
        let mut new_weight =
            weights[number] * weight - first * step_size / (largest.sqrt() * root_correction + epsilon);
        if comptime!(form.mask > 0) {
            let mask = comptime!(form.mask);
            let mask_factor = inputs[mask][number];
            new_weight *= mask_factor;
            if comptime!(form.mask_moments) {
                first *= mask_factor;
                second *= mask_factor;
                largest *= mask_factor;
            }
        }
        weights[number] = new_weight;
        moment_1[number] = first;
        moment_2[number] = second;
        if comptime!(form.largest != Largest::Unused) {
            max_moment_2[number] = largest;
        }
        index += CUBE_COUNT_X * CUBE_DIM;
    }
}
