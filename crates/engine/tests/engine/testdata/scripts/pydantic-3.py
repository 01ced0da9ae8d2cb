"""Nested models and constraints."""
from typing import Literal

from pydantic import BaseModel, Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class Opt(BaseModel):
    name: Literal["adam", "sgd"] = "adam"
    momentum: float = Field(0.9, ge=0, lt=1)


class Settings(BaseSettings):
    model_config = SettingsConfigDict(cli_parse_args=True, env_prefix="TRAIN_")

    lr: float = Field(default=1e-2, gt=0, description="Rate")
    epochs: int = 3
    opt: Opt = Opt()
    seed: int = 0


if __name__ == "__main__":
    print(Settings().model_dump())
