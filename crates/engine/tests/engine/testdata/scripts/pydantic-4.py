"""Environment variables with a prefix."""
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="train_", env_file=".env")

    lr: float = 0.1
    epochs: int = 5
    amp: bool = True
    name: str


settings = Settings()
print(f"loss={settings.lr}")
