"""The rescale of a running job: take its savepoint, rescale it, and start the new job, or the old one again."""
