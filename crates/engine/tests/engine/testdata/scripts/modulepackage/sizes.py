__all__ = ["WIDTH"]
WIDTH, SEED = 32, 0
