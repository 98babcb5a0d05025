"""Rescale while the job runs: rounds move what changes, and the job stands still only for the cut-over."""
