"""Settings with aliases of the environment."""
import functools

from pydantic_settings import BaseSettings


class Settings(BaseSettings):
    lr: float = 0.1
    batch_size: int = 64
    database: str


@functools.lru_cache
def get_settings():
    return Settings()


if __name__ == "__main__":
    print(get_settings())
