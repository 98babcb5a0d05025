"""Exports trace spans of a step and of its stages over OTLP (HTTP), as configured by OpenTelemetry's variables.

Spans are only made if `OTEL_EXPORTER_OTLP_ENDPOINT` (or the variable that is only for traces) names a collector and the
SDK is installed (the extra `tracing`). The parent of a step's span is named by `TRACEPARENT` (W3C Trace Context). A
collector that does not answer costs seconds at the end, but never fails a run. A time is the first reading of the wall
clock plus a difference of the monotonic clock, since the wall clock may be set back during a run.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

from rescale.execution.meter import METER, Stage
from rescale.text.errors import as_rescale_error

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Tracer

_COLLECTOR_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_FLUSH_MILLISECONDS = 10_000
_NANOSECONDS_PER_SECOND = 1_000_000_000


class _Exported:
    """Number of stages of this process that have become spans."""

    stage_count = 0


_exported = _Exported()


@contextmanager
def traced(step: str) -> Iterator[None]:
    """Make a span of the block, and one of each stage that ends in the block.

    Stages that end in an inner `traced` block get their spans there.
    """
    provider = _tracer_provider() if any(os.environ.get(name) for name in _COLLECTOR_VARIABLES) else None
    if provider is None:
        yield
        return
    from opentelemetry import trace
    from opentelemetry.trace import StatusCode
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    is_inner = trace.get_current_span().get_span_context().is_valid
    carrier = {name: os.environ.get(name.upper(), "") for name in ("traceparent", "tracestate")}
    parent = None if is_inner else TraceContextTextMapPropagator().extract(carrier)
    tracer, stage_count_before = provider.get_tracer("rescale"), METER.read().stage_count
    with tracer.start_as_current_span(
        step,
        parent,
        start_time=_unix_nanoseconds(time.monotonic()),
        record_exception=False,
        set_status_on_exception=False,
        end_on_exit=False,
    ) as span:
        try:
            yield
        except Exception as error:
            span.set_status(StatusCode.ERROR, as_rescale_error(error).what)
            raise
        finally:
            stages = METER.stages_after(max(stage_count_before, _exported.stage_count))
            _exported.stage_count = METER.read().stage_count
            for stage in stages:
                _export_stage(tracer, stage)
            span.end(_unix_nanoseconds(time.monotonic()))
    if not is_inner:
        provider.force_flush(_FLUSH_MILLISECONDS)


def _export_stage(tracer: Tracer, stage: Stage) -> None:
    begin_nanoseconds = _unix_nanoseconds(stage.start_time)
    end_nanoseconds = _unix_nanoseconds(stage.start_time + stage.seconds)
    tracer.start_span(stage.name, start_time=begin_nanoseconds, attributes={"rescale.bytes": stage.bytes}).end(
        end_nanoseconds
    )


def _unix_nanoseconds(monotonic_seconds: float) -> int:
    """Convert a time of the monotonic clock to nanoseconds since 1970."""
    unix_time, monotonic_time = _first_instant()
    return unix_time + int((monotonic_seconds - monotonic_time) * _NANOSECONDS_PER_SECOND)


@cache
def _first_instant() -> tuple[int, float]:
    """Return the same instant by the wall clock, in nanoseconds, and by the monotonic clock."""
    return time.time_ns(), time.monotonic()


@cache
def _tracer_provider() -> TracerProvider | None:
    """Return this process's provider of tracers; None if OpenTelemetry's SDK is not installed."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        print('no traces: to get them, pip install "flink-rescale[tracing]"', file=sys.stderr, flush=True)
        return None
    resource_attributes = {} if os.environ.get("OTEL_SERVICE_NAME") else {SERVICE_NAME: "rescale"}
    provider = TracerProvider(resource=Resource.create(resource_attributes))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider
