"""A task that moves or reads state: a process of this machine, or a pod."""
