"""Fields that the rescale form shows while all of its sections are closed."""

from __future__ import annotations

OPEN_FIELDS = (
    "source",
    "target",
    "parallelism",
    "max_parallelism",
    "same_shape",
    "require_approval",
    "approval_minutes",
    "connection",
)
"""Names of the fields, from top to bottom."""
