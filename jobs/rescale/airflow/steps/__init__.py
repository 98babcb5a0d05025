"""Tasks that run a step, as a process of this machine or as a pod, and what all tasks have in common."""
