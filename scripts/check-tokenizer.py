#!/usr/bin/env python3
"""Encodes a text with a byte-level BPE tokenizer as GPT-2's published encoder does, from the merges in a `tokenizer.json`.

usage: check-tokenizer.py TOKENIZER_JSON TEXT_FILE

Standard output is one line of JSON: the token ids. The encoder needs no package but `regex`, and shares no code with Hugging Face's.
"""

import json
import sys

import regex

tokenizer, text = sys.argv[1:]
model = json.load(open(tokenizer, encoding="utf-8"))["model"]
ranks = {tuple(merge): rank for rank, merge in enumerate(model["merges"])}

# GPT-2 writes each byte as a printable character.
printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
others = [byte for byte in range(256) if byte not in printable]
character = {byte: chr(byte) for byte in printable} | {byte: chr(256 + n) for n, byte in enumerate(others)}
words = regex.compile(r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+""")
known = {}


def encode(word):
    parts = [character[byte] for byte in word.encode("utf-8")]
    while True:
        pairs = [(ranks[pair], pair) for pair in zip(parts, parts[1:]) if pair in ranks]
        if not pairs:
            return [model["vocab"][part] for part in parts]
        _, (left, right) = min(pairs)
        merged, index = [], 0
        while index < len(parts):
            if parts[index : index + 2] == [left, right]:
                merged.append(left + right)
                index += 2
            else:
                merged.append(parts[index])
                index += 1
        parts = merged


ids = []
for word in words.findall(open(text, encoding="utf-8", newline="").read()):
    if word not in known:
        known[word] = encode(word)
    ids += known[word]
json.dump(ids, sys.stdout)
print()
