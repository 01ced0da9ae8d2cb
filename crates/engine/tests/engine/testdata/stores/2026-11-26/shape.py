"""The shape of the valley."""


def value(x, power):
    return abs(x) ** power


def slope(x, power):
    return power * abs(x) ** (power - 1) * (1 if x > 0 else -1)
