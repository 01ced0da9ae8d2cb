#!/usr/bin/env python3
"""Compares the four forms of each kind of figure: in the page of a report, as SVG, as PNG and as PDF.

    scripts/figures-alike.py [SWEEP] [--keep FOLDER]     SWEEP: the program; default: target/release/sweep

The page has the drawing of the SVG, which is compared as text. Chromium draws the SVG, `pdftoppm` (Debian: poppler-utils) the PDF; Pillow
compares PNG and PDF with the SVG, at two pixels for a unit. A pixel differs if no pixel within three units has its color or a lighter and a
darker one: other fonts and other smoothing of edges do not count, a line, a dot or a word that is missing does. `--keep` writes the
pictures and the study to a folder. The exit code is 1 if two forms differ. The environment variable CHROMIUM names the browser.
"""
import argparse
import base64
import pathlib
import shutil
import subprocess
import sys
import tempfile

from PIL import Image, ImageChops, ImageFilter

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "crates/engine/benches/page"))
from browser import Browser  # noqa: E402

#: Pixels at which the same part of a figure may lie in another form, at two pixels for a unit of the drawing.
NEAR = 6
#: Difference of a color that smoothing of edges explains, of 255.
TOLERANCE = 24
#: Most pixels that differ in forms that are alike: the edge of a band on a line of the grid has up to 69, a missing dot hundreds.
LIMIT = 100

PROGRAM = """\
import json, os
lr, width, seed = float(os.environ["LR"]), int(os.environ["WIDTH"]), int(os.environ["SEED"])
noise = ((seed * 7919 + width * 31 + int(lr * 1e4)) % 17 - 8) / 100
with open(os.environ["SWEEP_REPORT"], "a") as report:
    for step in range(1, 41):
        print(json.dumps({"step": step, "loss": 1 + abs(lr - 0.03) * 5 + 8 / width + 2 / step + noise / 4}), file=report)
    print(json.dumps({"step": 40, "intensity": width / 2.0, "rate": 1e8 * width * (1 + noise)}), file=report)
"""

FIGURES = {
    "line": "kind: line, x: iteration, y: loss, color: lr",
    "over": "kind: line, x: width, y: loss, color: lr",
    "bar": "kind: bar, x: lr, y: loss, color: width",
    "scatter": "kind: scatter, x: rate, y: loss, color: lr",
    "pareto": "kind: pareto, x: intensity, y: loss, color: lr, best: { intensity: min }",
    "heat": "kind: heat, x: lr, y: width, value: loss",
    "histogram": "kind: histogram, x: loss, color: lr",
    "roofline": "kind: roofline, x: intensity, y: rate, roofs: { compute: 4.0e9, bandwidth: 2.5e8 }, color: lr",
    "timeline": "kind: timeline, color: lr",
    "effects": "kind: effects, x: loss, effects: { factors: [lr, width] }",
    "parallel": "kind: parallel, value: loss",
    "slice": "kind: slice, x: lr, y: loss, color: width",
    "importance": "kind: importance, value: loss",
}


def recipe():
    """Each kind of figure, for the page and for a paper."""
    lines = [
        "name: figures",
        "steps:",
        "  train:",
        "    uses: command",
        "    matrix: { lr: [0.01, 0.03, 0.1], width: [8, 16] }",
        "    seeds: 3",
        "    with:",
        "      argv: [python3, program.py]",
        '      env: { LR: "${{ matrix.lr }}", WIDTH: "${{ matrix.width }}", SEED: "${{ matrix.seed }}" }',
        "      inputs: [program.py]",
        "figures:",
    ]
    for name, keys in FIGURES.items():
        lines.append(f"  {name}: {{ title: {name} & <its> title, from: train, {keys} }}")
        lines.append(f"  {name}-paper: {{ from: train, style: paper, {keys} }}")
    return "\n".join(lines) + "\n"


def run(command, folder):
    """Runs a command, which must succeed."""
    ended = subprocess.run([str(part) for part in command], cwd=folder, capture_output=True, text=True, check=False)
    if ended.returncode:
        sys.exit(f"{command[0]} has failed: {ended.stderr or ended.stdout}")


def unexplained(one, other):
    """Counts the pixels of a picture that are darker, lighter or more colorful than all pixels near them in another one."""
    lowest = highest = other
    for _ in range(NEAR):
        lowest, highest = lowest.filter(ImageFilter.MinFilter(3)), highest.filter(ImageFilter.MaxFilter(3))
    beyond = ImageChops.lighter(ImageChops.subtract(lowest, one), ImageChops.subtract(one, highest))
    red, green, blue = beyond.split()
    counts = ImageChops.lighter(ImageChops.lighter(red, green), blue).histogram()
    return sum(counts[TOLERANCE + 1 :])


def difference(one, other):
    """The number of pixels in which two pictures differ, in the worse direction."""
    return max(unexplained(one, other), unexplained(other, one))


def form(browser, script, path):
    """Writes a picture of an element at twice its size; a script gives its box."""
    box = browser.eval(script)
    clip = {**box, "scale": 2}
    shot = browser.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
    path.write_bytes(base64.b64decode(shot["data"]))
    return round(box["width"]), round(box["height"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="?", default=ROOT / "target/release/sweep", type=pathlib.Path)
    parser.add_argument("--keep", type=pathlib.Path, metavar="FOLDER")
    asked = parser.parse_args()
    if shutil.which("pdftoppm") is None:
        sys.exit("there is no pdftoppm: install poppler-utils")
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.keep or pathlib.Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "program.py").write_text(PROGRAM)
        (folder / "recipe.yaml").write_text(recipe())
        run([asked.program.resolve(), "run", "recipe.yaml"], folder)
        sys.exit(compare(folder))


def compare(folder):
    """Compares the forms of all figures of the report in a folder; the exit code."""
    report = folder / "results/reports/figures"
    page = (report / "index.html").read_text()
    browser, code = Browser(1280, 900), 0
    box = "(() => {{ const {{ x, y, width, height }} = document.querySelector({0}).getBoundingClientRect(); return {{ x: x + scrollX, y: y + scrollY, width, height }}; }})()"
    try:
        for name in [name + end for name in FIGURES for end in ("", "-paper")]:
            pictures = {}
            svg = report / "figures" / f"{name}.svg"
            browser.open(svg.as_uri())
            browser.until("document.documentElement.tagName === 'svg' && document.readyState === 'complete'")
            size = form(browser, box.format("'svg'"), folder / f"{name}-svg.png")
            pictures["SVG"] = Image.open(folder / f"{name}-svg.png")
            pictures["PNG"] = Image.open(report / "figures" / f"{name}.png")
            pdf = report / "figures" / f"{name}.pdf"
            if pdf.exists():
                run(["pdftoppm", "-png", "-singlefile", "-scale-to-x", 2 * size[0], "-scale-to-y", 2 * size[1], pdf, folder / f"{name}-pdf"], folder)
                pictures["PDF"] = Image.open(folder / f"{name}-pdf.png")
            shown = {words: picture.convert("RGB").resize((2 * size[0], 2 * size[1])) for words, picture in pictures.items()}
            found = {words: difference(shown["SVG"], picture) for words, picture in shown.items() if words != "SVG"}
            worst = max(found.values())
            in_page = svg.read_text().strip() in page
            differs = worst > LIMIT or not in_page
            code = code or int(differs)
            counts = ", ".join(f"{words} {count}" for words, count in found.items())
            print(f"{'differs' if differs else 'alike'}: {name}: {'in' if in_page else 'NOT in'} the page; pixels that differ from the SVG: {counts}", flush=True)
    finally:
        browser.close()
    return code


if __name__ == "__main__":
    main()
