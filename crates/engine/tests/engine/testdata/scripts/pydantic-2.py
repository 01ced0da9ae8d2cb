from pydantic_settings import BaseSettings, CliApp


class Settings(BaseSettings):
    lr: float = 0.1
    depth: int = 4


if __name__ == "__main__":
    CliApp.run(Settings)
