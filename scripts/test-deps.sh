#!/usr/bin/env bash
# Installs what the tests need beyond cargo and a C compiler: Vulkan in software, which stands in for a GPU; LaTeX, which the
# tables are set with; Chromium, in which the pages are tested; Slurm, Grid Engine and OpenSSH's server, of which
# scripts/slurm-test.sh, scripts/gridengine-test.sh and scripts/sshd-test.sh start clusters on loopback; Open MPI; a server that
# speaks S3, for the remote stores; languages of programs that jobs run; and mdbook, which makes the site of the documentation.
# The packages need apt and the right to install; where either is missing it says so, and so do the tests that cannot run.
set -euo pipefail

# Programs from crates.io, built once and kept: keep NAME VERSION PURPOSE OPTION…
# With little optimization: they are built for longer than they run.
keep() {
    local name=$1 version=$2 purpose=$3 root=$HOME/.cache/sweep/$1
    shift 3
    [ -x "$root/bin/$name" ] && return
    CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_TARGET_DIR=$root/target \
        cargo install --quiet --locked "$name" --version "$version" --root "$root" "$@" ||
        echo "test-deps: $name cannot be built here; $purpose need it" >&2
    rm -rf "$root/target"
}
keep s3s-fs 0.14.1 'tests on S3' --features binary
keep mdbook 0.5.4 'the site of the documentation and its tests' --no-default-features --features search

packages=(libvulkan1 mesa-vulkan-drivers texlive-latex-base texlive-latex-recommended slurm-wlm munge openssh-server openmpi-bin
    gridengine-master gridengine-exec gridengine-client xz-utils)
# Any Chromium will do. Ubuntu's package of that name is a snap, in which these tests cannot run.
if ! command -v chromium chromium-browser google-chrome google-chrome-stable >/dev/null \
    && ! grep -qs '^ID=ubuntu' /etc/os-release; then
    packages+=(chromium fonts-dejavu-core)
fi
# Languages of programs whose reads are observed, whichever package they are from.
for language in Rscript=r-base-core node=nodejs javac=default-jdk-headless tclsh=tcl lua5.4=lua5.4 jq=jq sqlite3=sqlite3 bc=bc; do
    command -v "${language%=*}" >/dev/null || packages+=("${language#*=}")
done
missing=()
for package in "${packages[@]}"; do
    dpkg-query --show --showformat='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
    exit 0
fi
if ! command -v apt-get >/dev/null; then
    echo "test-deps: no apt-get here; tests on Vulkan, Slurm and Grid Engine, of LaTeX and in a browser need: ${missing[*]}" >&2
    exit 0
fi
sudo=()
if [ "$(id -u)" -ne 0 ]; then
    if ! sudo -n true 2>/dev/null; then
        echo "test-deps: may not install; tests on Vulkan, Slurm and Grid Engine, of LaTeX and in a browser need: ${missing[*]}" >&2
        exit 0
    fi
    sudo=(sudo -n)
fi
export DEBIAN_FRONTEND=noninteractive
# Nothing that is installed for tests starts by itself: Slurm's services would, and are not configured.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' | "${sudo[@]}" tee "$policy" >/dev/null
    "${sudo[@]}" chmod 755 "$policy"
    trap '"${sudo[@]}" rm -f "$policy"' EXIT
fi
"${sudo[@]}" apt-get update -qq
# The packages of Grid Engine would make a cell of the system.
echo 'gridengine-common shared/gridengineconfig boolean false' | "${sudo[@]}" debconf-set-selections
"${sudo[@]}" apt-get -o DPkg::Lock::Timeout=600 install -y -qq --no-install-recommends "${missing[@]}"
