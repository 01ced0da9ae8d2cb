"""Options of the configuration as a class variable."""
from typing import ClassVar, Tuple

from pydantic_settings import BaseSettings


class Settings(BaseSettings):
    model_config = {"cli_parse_args": True, "cli_prog_name": "train"}
    VERSION: ClassVar[str] = "1"
    lr: float = 0.1
    hidden_sizes: Tuple[int, int] = (32, 32)
    device: str = "cpu"
    _secret: int = 3


print(Settings())
