"""Rescale while the job runs: rounds move what changes, and the job stands still for the last round alone."""
