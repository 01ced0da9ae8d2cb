//! Helpers that the tests of kernels share: a device, and reads from it.

use std::sync::OnceLock;

use cubecl::{
    Runtime as _,
    client::ComputeClient,
    prelude::CubeElement as _,
    server::Handle,
    wgpu::{AutoGraphicsApi, GraphicsApi, WgpuDevice, WgpuRuntime},
};

/// Client that starts kernels.
pub(crate) type Client = ComputeClient<WgpuRuntime>;

/// The device's client; without a device the test prints the reason and ends.
macro_rules! client {
    () => {
        match $crate::common::find() {
            Some(client) => client,
            None => {
                eprintln!("not tested: no graphics adapter responds; scripts/test-deps.sh installs Vulkan in software");
                return;
            }
        }
    };
}

pub(crate) use client;

/// The device's client, if there is a device.
pub(crate) fn find() -> Option<&'static Client> {
    static CLIENT: OnceLock<Option<Client>> = OnceLock::new();
    let start = || {
        let backends = wgpu::Backends::from(AutoGraphicsApi::backend());
        let instance = wgpu::Instance::new(wgpu::InstanceDescriptor {
            backends,
            ..wgpu::InstanceDescriptor::new_without_display_handle()
        });
        let adapters = cubecl::future::block_on(instance.enumerate_adapters(backends));
        let kinds: Vec<_> = adapters.iter().map(|adapter| adapter.get_info().device_type).collect();
        let device = match kinds.first()? {
            _ if kinds.iter().all(|kind| *kind == wgpu::DeviceType::Cpu) => WgpuDevice::Cpu,
            _ => WgpuDevice::DefaultDevice,
        };
        Some(WgpuRuntime::client(&device))
    };
    CLIENT.get_or_init(start).as_ref()
}

/// The numbers at `handle`.
pub(crate) fn read(client: &Client, handle: &Handle, length: usize) -> Vec<f32> {
    match length {
        0 => vec![],
        _ => f32::from_bytes(&client.read_one(handle.clone()).unwrap())[..length].to_vec(),
    }
}
