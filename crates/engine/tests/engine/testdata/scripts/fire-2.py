import fire


def main(
    base_model: str,
    data_path: str = "data",
    batch_size: int = 128,
    learning_rate: float = 3e-4,
    lora_target_modules: list = ["q_proj", "v_proj"],
    train_on_inputs: bool = True,
    group_by_length: bool = False,
    **kwargs,
):
    assert base_model


fire.Fire(main)
