"""The name of the module, and a subset by known arguments."""
import dataclasses

import transformers


@dataclasses.dataclass
class Args:
    depth: int = 4
    lr: float = 0.1
    hidden: int = dataclasses.field(default=0, init=False)


if __name__ == "__main__":
    args, rest = transformers.HfArgumentParser(Args).parse_args_into_dataclasses(return_remaining_strings=True)
