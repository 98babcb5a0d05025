"""The rescale of a running job: its savepoint is taken, rescaled, and the job is started from the result, or again."""
