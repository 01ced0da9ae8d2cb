def loss(lr):
    return 3 * lr
