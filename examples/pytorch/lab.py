"""The built-in lab's batches and networks, for a training in PyTorch that computes the same.

`starts` draws what the lab's `train` draws: ChaCha8, keyed by the BLAKE3 digest of the stream's name, and a number below a
bound by Canon's method. `load` reads a network in the layout of the Hugging Face Hub, which `save: true` writes.
"""

import json
import struct
from pathlib import Path

import torch

MASK = 0xFFFFFFFF
# The square roots of the first eight primes: the initial state of SHA-256 and of BLAKE3.
IV = [0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19]
QUARTERS = [(0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
            (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)]
PERMUTATION = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8]
CHUNK_START, CHUNK_END, ROOT, DERIVE_KEY_CONTEXT, DERIVE_KEY_MATERIAL = 1, 2, 8, 32, 64


def rotated(word, bits, left):
    bits = bits if left else 32 - bits
    return (word << bits | word >> (32 - bits)) & MASK


def mix(state, at, x, y, rotations, left):
    """The quarter round that BLAKE3 and ChaCha share: they rotate in opposite directions, and only BLAKE3 adds a message."""
    a, b, c, d = at
    for add, first, second in [(x, *rotations[:2]), (y, *rotations[2:])]:
        state[a] = (state[a] + state[b] + add) & MASK
        state[d] = rotated(state[d] ^ state[a], first, left)
        state[c] = (state[c] + state[d]) & MASK
        state[b] = rotated(state[b] ^ state[c], second, left)


def blake3_block(key, block, flags):
    """The digest of at most 64 bytes, with BLAKE3's flags; 8 words."""
    words = list(struct.unpack("<16I", block.ljust(64, b"\0")))
    state = [*key, *IV[:4], 0, 0, len(block), flags | CHUNK_START | CHUNK_END | ROOT]
    for _ in range(7):
        for number, at in enumerate(QUARTERS):
            mix(state, at, words[2 * number], words[2 * number + 1], (16, 12, 8, 7), left=False)
        words = [words[index] for index in PERMUTATION]
    return [state[index] ^ state[index + 8] for index in range(8)]


def chacha8(key):
    """The words of ChaCha with 8 rounds, from block 0 on."""
    block = 0
    while True:
        before = [0x61707865, 0x3320646E, 0x79622D32, 0x6B206574, *key, block & MASK, block >> 32, 0, 0]
        state = list(before)
        for _ in range(4):
            for at in QUARTERS:
                mix(state, at, 0, 0, (16, 12, 8, 7), left=True)
        yield from ((word + start) & MASK for word, start in zip(state, before))
        block += 1


def starts(seed, step, count, last):
    """The places of the `count` windows that the lab reads in a step, from 0 to `last`."""
    name = struct.pack("<QQ4sQQQ", seed, 4, b"data", 0, step, 0)
    context = blake3_block(IV, b"sweep-lab random stream v1", DERIVE_KEY_CONTEXT)
    words = chacha8(blake3_block(context, name, DERIVE_KEY_MATERIAL))
    bound = last + 1

    def draw():
        high, low = divmod(next(words) * bound, 1 << 32)
        # The product may fall short by what further digits would carry.
        if low > (1 << 32) - bound and low + (next(words) * bound >> 32) > MASK:
            high += 1
        return high

    return [draw() for _ in range(count)]


def load(model, folder):
    """Sets the weights of `model` to those in `folder`."""
    content = Path(folder, "model.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header, numbers = json.loads(content[8:8 + length]), bytearray(content[8 + length:])
    weights = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        first, end = entry["data_offsets"]
        weight = torch.frombuffer(numbers[first:end], dtype=torch.float32).view(entry["shape"])
        # The Hub keeps linear layers as [in, out], PyTorch as [out, in].
        linear = name.endswith(".weight") and weight.dim() == 2 and "wte" not in name and "wpe" not in name
        weights[name.removeprefix("transformer.")] = weight.T if linear else weight
    weights.pop("lm_head.weight", None)
    model.load_state_dict(weights)
