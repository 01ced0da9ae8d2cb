//! Masks chosen by kernels on a GPU, or on a software implementation of one, compared with masks from scores that the
//! host reads: with Burn's operations one by one, and inside `Fusion`.
use burn::tensor::{Distribution, Tensor};
use burn_cubecl::CubeBackend;
use burn_fusion::Fusion;
use sweep_job::{
    Backend, Probe,
    tasks::{Prune, PruneMethod, PruneUpdate},
};
use sweep_lab::{
    LabError,
    device::read::reads,
    prune::{Choice, Goal, Group, Inputs, Layers, Moments, Selects},
};

/// Returns the devices of `backend`; prints the reason if none was found.
fn found(backend: Backend) -> Option<Probe> {
    let probe = sweep_lab::probe(backend);
    for rejected in &probe.rejected {
        eprintln!("not tested on {backend}: {}; scripts/test-deps.sh installs Vulkan in software", rejected.reason);
    }
    (!probe.devices.is_empty()).then_some(probe)
}

/// Layers of these sizes; each tensor is the outcome of operations, which a fusing backend has only noted so far.
fn inputs<B: Selects>(sizes: &[usize], masked: bool, device: &B::Device) -> Vec<Inputs<B>> {
    B::seed(device, 3);
    let normal =
        |size: usize, scale: f64| Tensor::<B, 1>::random([size], Distribution::Normal(0.0, 1.0), device) * scale;
    let layer = |(layer, size): (usize, &usize)| {
        let root = normal(*size, 1e-3);
        let mask = masked.then(|| normal(*size, 1.0).greater_elem(-0.5).float());
        let weights = normal(*size, 0.02);
        Inputs {
            name: format!("layer {layer}"),
            weights: mask.clone().map_or_else(|| weights.clone(), |mask| weights.clone() * mask),
            moments: Some(Moments { first: normal(*size, 1e-3), second: root.clone() * root, bias_correction_1: 0.5 }),
            origin: Some(normal(*size, 0.02)),
            mask,
        }
    };
    sizes.iter().enumerate().map(layer).collect()
}

fn select<B: Selects>(
    prune: &Prune,
    inputs: &[Inputs<B>],
    groups: &[Group],
) -> Result<Vec<Option<Choice<B>>>, LabError> {
    B::selector(prune).select(&mut Layers::new(prune, inputs.to_vec()), &Goal { groups, seed: 1 })
}

fn host<B: Selects>(tensor: &Tensor<B, 1>) -> Vec<f32> {
    tensor.to_data().to_vec().unwrap()
}

/// Compares kernels with the host on `B`.
fn kernels_choose_what_the_host_chooses<B: Selects>(device: &B::Device) {
    let together = |sparsity| vec![Group { layers: 0..3, sparsity }];
    let apart: Vec<Group> =
        (0..3).map(|layer| Group { layers: layer..layer + 1, sparsity: 0.2 + 0.2 * layer as f64 }).collect();
    let none = vec![Group { layers: 0..1, sparsity: 0.0 }, Group { layers: 1..3, sparsity: 0.4 }];
    // More than are all looked at.
    let sizes = [40_000, 301, 60_000];
    for (method, masked) in
        [(PruneMethod::Magnitude, false), (PruneMethod::Bitter7, false), (PruneMethod::Movement, true)]
    {
        let kernels = Prune { prune: method, prune_update: PruneUpdate::OnePass, ..Prune::default() };
        let scores = Prune { prune_update: PruneUpdate::SinglePass, ..kernels.clone() };
        let inputs = inputs::<B>(&sizes, masked, device);
        for groups in [together(0.1), together(0.5), apart.clone(), none.clone()] {
            let before = reads();
            let found = select(&kernels, &inputs, &groups).unwrap();
            let chosen = groups.iter().filter(|group| group.sparsity > 0.0).count();
            assert_eq!(reads() - before, chosen as u64, "one reading for a threshold");
            let wanted = select(&scores, &inputs, &groups).unwrap();
            for (layer, (found, wanted)) in found.iter().zip(&wanted).enumerate() {
                assert_eq!(found.is_some(), wanted.is_some());
                let (Some(found), Some(wanted)) = (found, wanted) else { continue };
                assert_eq!(found.threshold.to_bits(), wanted.threshold.to_bits(), "{method}, layer {layer}");
                let mask = host(&found.mask);
                assert_eq!(mask, host(&wanted.mask), "{method}, layer {layer}");
                assert_eq!(found.pruned, Some(mask.iter().filter(|stays| **stays == 0.0).count()));
                // The mask is a tensor like any other.
                let weights = &inputs[layer].weights;
                let kept = host(&(weights.clone() * found.mask.clone() + 1.0));
                let one_by_one = host(weights).into_iter().zip(mask).map(|(weight, mask)| weight * mask + 1.0);
                assert_eq!(kept, one_by_one.collect::<Vec<_>>());
            }
        }
        let mut spoilt = inputs;
        // The mask is removed, because weights that are pruned for good are not examined.
        spoilt[1].mask = None;
        let nan = Tensor::<B, 1>::from_floats([f32::NAN], device);
        spoilt[1].weights = Tensor::cat(vec![spoilt[1].weights.clone().slice(0..300), nan], 0);
        for settings in [&kernels, &scores] {
            let error = select(settings, &spoilt, &together(0.5)).unwrap_err();
            assert!(matches!(&error, LabError::NotANumber { parameter } if parameter == "layer 1"), "{error}");
        }
    }
}

#[cfg(feature = "wgpu")]
#[test]
fn kernels_choose_what_the_host_chooses_on_wgpu() {
    use cubecl::wgpu::{WgpuDevice, WgpuRuntime};

    type Wgpu = CubeBackend<WgpuRuntime, f32, i32, u32>;

    if let Some(probe) = found(Backend::Wgpu) {
        let device = if probe.devices[0].software { WgpuDevice::Cpu } else { WgpuDevice::DefaultDevice };
        kernels_choose_what_the_host_chooses::<Wgpu>(&device);
        kernels_choose_what_the_host_chooses::<Fusion<Wgpu>>(&device);
    }
}

#[cfg(feature = "cuda")]
#[test]
fn kernels_choose_what_the_host_chooses_on_cuda() {
    use cubecl::cuda::{CudaDevice, CudaRuntime};

    type Cuda = CubeBackend<CudaRuntime, f32, i32, u8>;

    if found(Backend::Cuda).is_some() {
        let device = CudaDevice::new(0);
        kernels_choose_what_the_host_chooses::<Cuda>(&device);
        kernels_choose_what_the_host_chooses::<Fusion<Cuda>>(&device);
    }
}
