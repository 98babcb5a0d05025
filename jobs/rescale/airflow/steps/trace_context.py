"""The trace of an Airflow task, passed on to the processes and pods that it starts."""

from __future__ import annotations

from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator


def trace_context() -> dict[str, str]:
    """Return environment variables that give a child process the current span (W3C Trace Context), if there is one."""
    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return {name.upper(): value for name, value in carrier.items()}
