from typing import Literal, Optional

from pydantic import BaseModel, Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class Opt(BaseModel):
    momentum: float = 0.9
    nesterov: bool = False


class Settings(BaseSettings):
    model_config = SettingsConfigDict(cli_parse_args=True)
    lr: float = Field(default=0.1, description="rate")
    amp: bool = True
    n: Optional[int] = None
    kind: Literal["a", "b"] = "a"
    sizes: list[int] = [1, 2]
    opt: Opt = Opt()
    steps: int


settings = Settings()
