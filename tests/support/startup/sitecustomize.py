"""Python imports this when it starts, where this directory is on PYTHONPATH: so every process of a run has the twin."""

from support.faults import install

install()
