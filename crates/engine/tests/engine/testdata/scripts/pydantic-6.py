"""An enumeration, a base class and annotated types."""
from enum import Enum
from typing import Annotated

from pydantic import Field
from pydantic_settings import BaseSettings


class Kind(str, Enum):
    A = "a"
    B = "b"


class Base(BaseSettings):
    kind: Kind = Kind.A
    lr: float = 0.1


class Config(Base, cli_parse_args=True):
    lr: float = 0.5
    ratio: Annotated[float, Field(ge=0, le=1)] = 0.1
    flag: bool = False


config = Config()
