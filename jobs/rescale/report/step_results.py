"""Defines the result documents that the process of each step writes to its `--result`: result, duration, and counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec

from rescale.report.differences import DiffDocument
from rescale.runstate.certificate import Certificate, CertificateDocument
from rescale.text.error_document import ErrorDocument


class StageMetrics(msgspec.Struct, frozen=True):
    """A stage of a step, and the bytes that it read or wrote."""

    stage: str
    bytes: int
    seconds: float
    mb_per_second: float


class Retries(msgspec.Struct, frozen=True):
    """Numbers of requests to the store that were repeated, and of failed attempts of tasks."""

    requests: int
    tasks: int


class WorstMemory(msgspec.Struct, frozen=True):
    """Peak memory of the driver and of the largest worker, in bytes; 0 without workers."""

    driver: int
    workers: int


class StepMetrics(msgspec.Struct, frozen=True):
    """Counts of a step and its workers; `bytes` is the sum of what all stages read or wrote."""

    bytes: int
    bytes_copied_by_store: int
    records: int
    mb_per_second: float
    stages: tuple[StageMetrics, ...]
    store_requests: dict[str, int]
    retries: Retries
    worst_memory_bytes: WorstMemory


class MovedStreams(msgspec.Struct, frozen=True):
    """Streams that a moving step wrote: the URI of their handles, their number, and the bytes that the plan expects."""

    handles: str
    streams: int
    bytes: int


class PreparedFiles(msgspec.Struct, frozen=True):
    """Files that are copied ahead, and their bytes; `new_files` and `new_bytes` count what this step has copied."""

    files: int
    bytes: int
    new_files: int
    new_bytes: int


StepResult = MovedStreams | PreparedFiles | Certificate | DiffDocument | None
"""Result of a step; None for a process that carries out several steps, each with a result document of its own."""


class MovedResult(MovedStreams, frozen=True, kw_only=True):
    """Result of a step that moves state."""

    status: Literal["done"]
    seconds: float
    metrics: StepMetrics


class PreparedResult(PreparedFiles, frozen=True, kw_only=True):
    """Result of the step that copies files ahead."""

    status: Literal["done"]
    seconds: float
    metrics: StepMetrics


@dataclass(frozen=True, kw_only=True)
class ValidatedResult(CertificateDocument):
    """Result of the step that validates: the certificate."""

    status: Literal["done"]
    seconds: float
    metrics: StepMetrics


class DiffResult(DiffDocument, frozen=True, kw_only=True):
    """Result of the step that compares two snapshots."""

    status: Literal["done"]
    seconds: float
    metrics: StepMetrics


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of the process that runs all steps; each step also has a result document of its own, beside the target."""

    status: Literal["done"]
    seconds: float
    metrics: StepMetrics


class FailedResult(ErrorDocument, frozen=True, kw_only=True):
    """Result of a step that failed: its error."""

    status: Literal["failed"]
    seconds: float
    metrics: StepMetrics
