"""Thresholds and masks in PyTorch and NumPy, as `crates/lab/benches/select.rs` times its own.

usage: thresholds.py WIDTH LAYERS CALLS

Layers are square, with weights and second moments; half of the weights go by `|w| (|v| + 1e-8)^(1/4)` (bitter7). The
PyTorch updates are those of paper 001, before (double pass) and after (single pass, a sample of 1 %). Every line is: a
name, median and least milliseconds, mean milliseconds of processor time, and by how many MB the first call raised
resident memory at most.
"""

import sys
import time

import numpy as np

try:
    import torch
except ImportError:
    torch = None

WIDTH, LAYERS, CALLS = map(int, sys.argv[1:])
NUMBERS = WIDTH * WIDTH
K = LAYERS * NUMBERS // 2


def status(name):
    with open("/proc/self/status") as file:
        return next(float(line.split()[1]) for line in file if line.startswith(name)) / 1000


def measure(name, call):
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    before = status("VmRSS:")
    call()
    raised = status("VmHWM:") - before
    times = []
    used = time.process_time()
    for _ in range(CALLS):
        begun = time.perf_counter()
        call()
        times.append((time.perf_counter() - begun) * 1e3)
    cpu = (time.process_time() - used) * 1e3 / CALLS
    times.sort()
    print(f"{name}\t{times[len(times) // 2]}\t{times[0]}\t{cpu}\t{raised}", flush=True)


random = np.random.default_rng(0)
weights = [random.standard_normal(NUMBERS, dtype=np.float32) * np.float32(0.02) for _ in range(LAYERS)]
moments = [(random.standard_normal(NUMBERS, dtype=np.float32) * np.float32(1e-4)) ** 2 for _ in range(LAYERS)]


def numpy_scores(w, v):
    return np.abs(w) * np.sqrt(np.sqrt(np.abs(v) + np.float32(1e-8)))


def numpy_rows():
    scores = np.concatenate([numpy_scores(w, v) for w, v in zip(weights, moments)])
    measure("threshold NumPy partition", lambda: np.partition(scores, K - 1)[K - 1])

    def update():
        kept = [numpy_scores(w, v) for w, v in zip(weights, moments)]
        threshold = np.partition(np.concatenate(kept), K - 1)[K - 1]
        return [scores > threshold for scores in kept]

    measure("update NumPy partition, single pass", update)


def torch_rows():
    w_all, v_all = ([torch.from_numpy(numbers) for numbers in part] for part in (weights, moments))

    def scored(w, v):
        return torch.abs(w) * (torch.abs(v) + 1e-8) ** 0.25

    def by_sample(scores, k, fraction):
        size = max(1, int(scores.numel() * fraction))
        sample = scores[torch.randint(0, scores.numel(), (size,))]
        return torch.kthvalue(sample, max(1, int(k * (size / scores.numel())))).values

    scores = torch.cat([scored(w, v) for w, v in zip(w_all, v_all)])
    measure("threshold PyTorch sample 2 %", lambda: by_sample(scores, K, 0.02))
    measure("threshold PyTorch kthvalue", lambda: torch.kthvalue(scores, K).values)
    measure("threshold PyTorch topk", lambda: torch.topk(scores, K, largest=False).values[-1])
    del scores

    def double_pass():
        threshold = by_sample(torch.cat([scored(w, v) for w, v in zip(w_all, v_all)]), K, 0.02)
        return [scored(w, v) > threshold for w, v in zip(w_all, v_all)]

    def single_pass():
        kept, samples = [], []
        for w, v in zip(w_all, v_all):
            scores = scored(w, v)
            kept.append(scores)
            samples.append(scores[torch.randint(0, NUMBERS, (max(1, int(NUMBERS * 0.01)),))])
        sample = torch.cat(samples)
        threshold = torch.kthvalue(sample, max(1, int(K / (LAYERS * NUMBERS) * sample.numel()))).values
        return [scores > threshold for scores in kept]

    measure("update PyTorch sample, double pass", double_pass)
    measure("update PyTorch sample, single pass", single_pass)


if torch is not None:
    torch_rows()
numpy_rows()
