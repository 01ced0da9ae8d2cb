#!/usr/bin/env python3
"""Makes docs/figures/report.png: the page of the report of the study in docs/usability.md, in headless Chromium.

    scripts/report-picture.py [SWEEP]     the program; default: target/release/sweep

The environment variable CHROMIUM names the browser; default: the first one on the PATH.
"""
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs/figures/report.png"
WIDTH, HEIGHT, SCALE = 1000, 1520, 1.5


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def browser():
    names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    return found or sys.exit("there is no Chromium; scripts/test-deps.sh installs it on Debian")


def main():
    program = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "target/release/sweep").resolve()
    if not program.exists():
        sys.exit(f"there is no program at {program}; name one, or run `make build`")
    chromium = browser()
    page = (ROOT / "docs/usability.md").read_text()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "train.py").write_text(blocks(page, "python")[0])
        (folder / "study.yaml").write_text(blocks(page, "yaml")[0])
        subprocess.run([program, "run", "study.yaml", "--strict"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        report = folder / "results/reports/study/index.html"
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        subprocess.run(
            [chromium, "--headless=new", "--disable-gpu", "--hide-scrollbars", "--force-color-profile=srgb",
             "--disable-background-networking", f"--user-data-dir={folder / 'profile'}", *sandbox,
             f"--force-device-scale-factor={SCALE}", f"--window-size={WIDTH},{HEIGHT}",
             f"--screenshot={PICTURE}", report.as_uri()],
            check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120,
        )
    width, height = struct.unpack(">II", PICTURE.read_bytes()[16:24])
    print(f"{PICTURE.relative_to(ROOT)}: {width} x {height}, {PICTURE.stat().st_size // 1024} KiB")


if __name__ == "__main__":
    main()
