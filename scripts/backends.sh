#!/bin/sh
# Prints cargo's options for the backends that this machine can use. Without a CUDA and a Vulkan library only the CPU is left,
# and building the others would take twice as long for nothing.
#
#   scripts/backends.sh [FEATURES]     features of a build for the CPU; default: cpu,mcp,remote,ui
PATH=$PATH:/sbin:/usr/sbin
# The list of ldconfig, or the usual folders where there is no ldconfig; LD_LIBRARY_PATH has the libraries of containers.
found=$(ldconfig -p 2>/dev/null)
for folder in $(echo "$LD_LIBRARY_PATH" | tr ':' ' ') /usr/lib /usr/lib64 /usr/lib/*-linux-gnu /usr/lib/wsl/lib /run/opengl-driver/lib; do
    for library in libcuda.so.1 libvulkan.so.1; do
        [ ! -e "$folder/$library" ] || found="$found $library"
    done
done
case $found in
    *libcuda.so.1* | *libvulkan.so.1*) ;;
    *)
        echo 'no CUDA and no Vulkan library on this machine: building for the CPU only (all backends: make BACKENDS= …)' >&2
        echo "--no-default-features --features ${1:-cpu,mcp,remote,ui}"
        ;;
esac
