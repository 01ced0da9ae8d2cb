#!/bin/sh
# Prints cargo's options for the backends that this machine can use. Without a CUDA and a Vulkan library only the CPU is left,
# and building the others would take twice as long for nothing.
PATH=$PATH:/sbin:/usr/sbin
libraries=$(ldconfig -p 2>/dev/null) || exit 0
case $libraries in
    *libcuda.so.1* | *libvulkan.so.1*) ;;
    *)
        echo 'no CUDA and no Vulkan library on this machine: building for the CPU only (all backends: make BACKENDS= …)' >&2
        echo '--no-default-features --features cpu,mcp,remote,ui'
        ;;
esac
