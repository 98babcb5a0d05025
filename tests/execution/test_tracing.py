"""Spans of a step arrive at a collector over OTLP; without a collector, nothing is sent or imported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from rescale.execution import tracing
from rescale.execution.meter import METER
from rescale.plan.plan import Plan
from rescale.runstate.places import places_of
from rescale.runstate.step import Step
from support.http_servers import LocalServer, QuietHandler, serving
from support.pipeline import claimed_plan
from support.snapshots import directory

TRACE_ID, PARENT_ID = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


class Collector(LocalServer):
    def __init__(self) -> None:
        super().__init__(_Handler)
        self.spans: list[Span] = []
        self.services: set[str] = set()


class _Handler(QuietHandler):
    server: Collector

    def answer(self) -> None:
        assert self.path == "/v1/traces"
        body = self.rfile.read(int(self.headers["Content-Length"]))
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            value_by_key = {attribute.key: attribute.value.string_value for attribute in resource.resource.attributes}
            self.server.services.add(value_by_key["service.name"])
            for scope in resource.scope_spans:
                self.server.spans += scope.spans
        self.send_response(200)
        self.end_headers()


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return claimed_plan(directory("2-clicks"), str(tmp_path / "target"), ["3"])


def exit_code_of_step(plan: Plan, step: Step, **variables: str) -> int:
    """Run a process of the step, which has little to do; return its exit code."""
    result = places_of(plan).result(step)
    arguments = ["--plan", places_of(plan).plan, "--result", result, "--master", "local[2]"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    process = subprocess.run(
        [sys.executable, "-m", step.value, *arguments], env={**environment, **variables}, check=False
    )
    return process.returncode


def test_run_steps_and_stages_are_spans_below_the_span_of_the_caller(plan: Plan) -> None:
    with serving(Collector()) as collector:
        exit_code = exit_code_of_step(
            plan, Step.RUN, OTEL_EXPORTER_OTLP_ENDPOINT=collector.address, TRACEPARENT=f"00-{TRACE_ID}-{PARENT_ID}-01"
        )
    assert exit_code == 0
    assert collector.services == {"rescale"}
    assert {span.trace_id.hex() for span in collector.spans} == {TRACE_ID}
    name_by_id = {span.span_id: span.name for span in collector.spans}
    parents_and_children = {
        (name_by_id.get(span.parent_span_id, span.parent_span_id.hex()), span.name) for span in collector.spans
    }
    assert {
        (PARENT_ID, "move_and_validate"),
        ("move_and_validate", "reshuffle_keyed_state"),
        ("reshuffle_keyed_state", "reshuffle keyed state"),
        ("move_and_validate", "validate_coverage"),
        ("validate_coverage", "validate"),
    } <= parents_and_children
    assert ("move_and_validate", "validate") not in parents_and_children
    span_by_name = {span.name: span for span in collector.spans}
    stage, step = span_by_name["validate"], span_by_name["validate_coverage"]
    assert step.start_time_unix_nano <= stage.start_time_unix_nano <= stage.end_time_unix_nano
    assert {attribute.key: attribute.value.int_value for attribute in stage.attributes}["rescale.bytes"] > 0


def test_span_of_a_failed_step_has_an_error_status(plan: Plan) -> None:
    with serving(Collector()) as collector:
        exit_code = exit_code_of_step(
            plan, Step.VALIDATE, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=f"{collector.address}/v1/traces"
        )
    document = json.loads(Path(places_of(plan).result(Step.VALIDATE)).read_bytes())
    (span,) = collector.spans
    assert exit_code == document["exit_code"] == 2
    assert span.status == Status(code=Status.STATUS_CODE_ERROR, message=document["what"])
    assert span.parent_span_id == b""


def test_opentelemetry_is_not_imported_without_a_collector() -> None:
    program = (
        "import sys\nfrom rescale.execution.tracing import traced\nwith traced('a step'): pass\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    process = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert process.stdout == "[]\n"


@pytest.mark.parametrize("hours", [-1, 1])
def test_jumping_clock_does_not_change_the_length_of_spans(hours: int, monkeypatch: pytest.MonkeyPatch) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    real_clock = time.time_ns
    monkeypatch.setattr(tracing, "_tracer_provider", lambda: provider)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    with tracing.traced("step"):
        for clock_function in ("time.time_ns", "opentelemetry.sdk.trace.time_ns"):
            monkeypatch.setattr(clock_function, lambda: real_clock() + hours * 3600 * 10**9)
        METER.add_stage("stage", 1, 0.0)
    stage, step = ((span.start_time or 0, span.end_time or 0) for span in exporter.get_finished_spans())
    assert step[0] <= stage[0] <= stage[1] <= step[1]
    assert step[1] - step[0] < 1800 * 10**9
