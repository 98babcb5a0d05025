"""Files that a follower keeps beside its target: rounds, and pins of checkpoints; and their removal."""
