"""Following a running job: its checkpoints become rounds of a result, the last of which is the result itself."""
