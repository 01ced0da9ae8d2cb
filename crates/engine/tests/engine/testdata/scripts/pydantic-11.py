"""A model that is not one of settings, and an alias."""
from pydantic import BaseModel, Field
from pydantic_settings import CliApp


class Opt(BaseModel):
    use_nesterov: bool = True


class Args(BaseModel):
    learning_rate: float = 0.1
    opt: Opt = Opt()
    second: int = Field(1, alias="lr2")

    def cli_cmd(self):
        print(self)


CliApp.run(Args)
