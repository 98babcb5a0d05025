"""Tasks that run a step, as a process on this machine or as a pod, and the base of all tasks."""
