"""A default that is made by a function, and a class of settings in a function."""
from pydantic import BaseModel, Field
from pydantic_settings import BaseSettings


class Model(BaseModel):
    width: int = 64
    act: str = "relu"


def main():
    class Settings(BaseSettings):
        model: Model = Field(default_factory=Model)
        steps: int = Field(100)

    settings = Settings(_cli_parse_args=True)
    print(settings)


main()
