//! Counts of fused operations, as Burn's fusion reports them.

use sweep_job::Backend;

/// Counts of a fusing backend.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Fused {
    /// Number of operations that ran in fused kernels.
    pub(crate) operations: usize,
    /// Number of fused kernels.
    pub(crate) kernels: usize,
    /// Number of operations that ran unfused.
    pub(crate) unfused: usize,
}

/// Watches this thread's stream of operations, from now on.
pub(crate) struct Watch(#[cfg(any(feature = "cuda", feature = "wgpu"))] burn_fusion::inspect::FusionInspector);

#[cfg(any(feature = "cuda", feature = "wgpu"))]
impl Watch {
    /// `None` on a backend that compiles no kernels.
    pub(crate) fn start(backend: Backend) -> Option<Self> {
        use burn_fusion::{inspect::FusionInspector, stream::StreamId};
        (backend != Backend::Cpu).then(|| Self(FusionInspector::install(StreamId::current())))
    }

    /// The reported counts. The device must have finished all of its work.
    pub(crate) fn finish(self) -> Fused {
        use burn_fusion::inspect::matchers::is_drop;
        // Giving memory back goes through the stream, but computes nothing.
        let computes = is_drop();
        let mut fused = Fused::default();
        for block in self.0.drain().iter().flat_map(|report| &report.blocks) {
            let operations = block.operations.iter().filter(|operation| !computes(operation)).count();
            if block.fuser_name().is_some() {
                fused.operations += operations;
                fused.kernels += 1;
            } else {
                fused.unfused += operations;
            }
        }
        fused
    }
}

#[cfg(not(any(feature = "cuda", feature = "wgpu")))]
impl Watch {
    pub(crate) fn start(_: Backend) -> Option<Self> {
        None
    }

    #[expect(clippy::unused_self, reason = "as where there are kernels to count")]
    pub(crate) fn finish(self) -> Fused {
        Fused::default()
    }
}
