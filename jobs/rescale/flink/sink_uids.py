"""The uids of the operators that Flink makes of one sink (`SinkTransformationTranslator`).

The writer has the sink's own uid. What commits, and what stands between the two of a `FileSink` that compacts, gets one
that is made of it, so that with the sink's uid the ids of all of them change.
"""

from __future__ import annotations

_BESIDE_THE_WRITER = (
    "Sink Committer: {}",
    "Sink {} Global Committer",
    "{}: FileSinkCompactorCoordinator",
    "{}: FileSinkCompactorOperator",
)


def uids_beside_writer(uid: str) -> tuple[str, ...]:
    """Those of a sink's other operators, in a fixed order; a sink has some of them, or none."""
    return tuple(form.format(uid) for form in _BESIDE_THE_WRITER)
