"""A function with types, and an optional value."""
from typing import Optional

import fire

from llama import Llama


def main(
    ckpt_dir: str,
    tokenizer_path: str,
    temperature: float = 0.6,
    top_p: float = 0.9,
    max_seq_len: int = 128,
    max_gen_len: Optional[int] = None,
):
    """Entry point of the program for generating text."""
    generator = Llama.build(ckpt_dir=ckpt_dir, tokenizer_path=tokenizer_path)


if __name__ == "__main__":
    fire.Fire(main)
