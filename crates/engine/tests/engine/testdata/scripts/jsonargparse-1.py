from typing import List, Literal, Optional

from jsonargparse import CLI


def main(lr: float = 0.1, amp: bool = False, limit: Optional[int] = None, kind: Literal["a", "b"] = "a", sizes: List[int] = [1, 2], seed: int = 0):
    print(lr)


if __name__ == "__main__":
    CLI(main)
