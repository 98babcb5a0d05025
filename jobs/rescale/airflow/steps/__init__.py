"""Tasks that run a step of an approved plan, in a process or a pod, and the base of all tasks."""
