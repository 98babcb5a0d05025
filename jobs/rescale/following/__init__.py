"""Following a running job: a checkpoint becomes a round with its rescaled state, and the last round is the result."""
