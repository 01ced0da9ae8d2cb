"""CleanRL: a dataclass read by tyro."""
from dataclasses import dataclass

import tyro


@dataclass
class Args:
    exp_name: str = "ppo"
    seed: int = 1
    total_timesteps: int = 4
    learning_rate: float = 2.5e-4
    anneal_lr: bool = True


args = tyro.cli(Args)
for global_step in range(args.total_timesteps):
    print(f"global_step={global_step}, episodic_return={global_step * args.learning_rate + args.seed}")
