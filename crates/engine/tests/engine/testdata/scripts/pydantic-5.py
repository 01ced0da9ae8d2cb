"""The application of pydantic runs the command."""
from pathlib import Path
from typing import List, Optional

from pydantic import BaseModel, field_validator
from pydantic_settings import BaseSettings, CliApp


class Train(BaseSettings):
    depth: int = 4
    lr: float = 0.1
    tags: List[str] = ["a"]
    out: Path = Path("runs")
    limit: Optional[int] = None
    data: str

    @field_validator("lr")
    @classmethod
    def positive(cls, value):
        return value

    def cli_cmd(self) -> None:
        print(self.lr)


if __name__ == "__main__":
    CliApp.run(Train)
