"""The base of all tasks, and the tasks that run a step of a plan in a process or a pod."""
