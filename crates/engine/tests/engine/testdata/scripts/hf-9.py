"""Classes of a module beside it."""
from transformers import HfArgumentParser
from hf_arguments import Extra, Training


def main():
    training, extra = HfArgumentParser((Training, Extra)).parse_args_into_dataclasses()


main()
