"""The rescale of a running job: take its savepoint, rescale it, and start the job from the result, or as it was."""
