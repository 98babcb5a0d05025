"""Refusals: snapshots and requests that planning rejects, before anything is written."""
