#!/usr/bin/env bash
# Installs what the tests need beyond cargo and a C compiler: Vulkan in software, which stands in for a GPU, LaTeX,
# which the tables are set with, and Chromium, in which the pages are tested.
# Needs apt and the right to install; where either is missing it says so, and so do the tests that cannot run.
set -euo pipefail

packages=(libvulkan1 mesa-vulkan-drivers texlive-latex-base texlive-latex-recommended)
# Any Chromium will do. Ubuntu's package of that name is a snap, in which these tests cannot run.
if ! command -v chromium chromium-browser google-chrome google-chrome-stable >/dev/null \
    && ! grep -qs '^ID=ubuntu' /etc/os-release; then
    packages+=(chromium fonts-dejavu-core)
fi
missing=()
for package in "${packages[@]}"; do
    dpkg-query --show --showformat='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
    exit 0
fi
if ! command -v apt-get >/dev/null; then
    echo "test-deps: no apt-get here; tests on Vulkan, of LaTeX and in a browser need: ${missing[*]}" >&2
    exit 0
fi
sudo=()
if [ "$(id -u)" -ne 0 ]; then
    if ! sudo -n true 2>/dev/null; then
        echo "test-deps: may not install; tests on Vulkan, of LaTeX and in a browser need: ${missing[*]}" >&2
        exit 0
    fi
    sudo=(sudo -n)
fi
export DEBIAN_FRONTEND=noninteractive
"${sudo[@]}" apt-get update -qq
"${sudo[@]}" apt-get -o DPkg::Lock::Timeout=600 install -y -qq --no-install-recommends "${missing[@]}"
