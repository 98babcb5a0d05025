"""The trace of an Airflow task, handed on to the processes and pods that it starts."""

from __future__ import annotations

from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator


def trace_context() -> dict[str, str]:
    """Variables by which a process knows the span that it belongs to (W3C Trace Context); none without a trace."""
    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return {name.upper(): value for name, value in carrier.items()}
