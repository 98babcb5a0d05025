"""The report is one small file: it loads nothing, runs nothing, and escapes all text."""

from __future__ import annotations

import base64
import hashlib
import json
from collections import Counter
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from msgspec import structs

from rescale.report.documents import ReportDocument
from rescale.report.report_page import LARGEST_REPORT_BYTES, html_report
from rescale.runstate.certificate import Certificate, CertifiedDirectories, CertifiedOperator
from rescale.runstate.certified_files import CertifiedFile
from rescale.snapshot.surgery import NO_SURGERY, Dropped, Renamed, Surgery
from rescale.text.errors import IntegrityError
from support.reports import plan_of_report, plan_report, proven, snapshot_report

EVIL = "</title></script><script>alert('1')</script><img src=x onerror=alert(2)>\"&lt;\x1b[31m\u202e"

VOID_TAGS = {"meta", "br", "link", "img", "input", "hr"}


class ParsedPage(HTMLParser):
    """Elements of a page with their attributes, and the texts in them by tag."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.texts.setdefault(tag, []).append("")
        if tag not in VOID_TAGS:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open:
            self.texts[self._open[-1]][-1] += data

    def attributes_of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@cache
def documents() -> dict[str, ReportDocument]:
    plan = plan_of_report((4, 128), (6, 128))
    error = IntegrityError("key group 17 is not the source's", advice="discard").document()
    return {
        "a snapshot": snapshot_report(4, 128),
        "a plan": ReportDocument(plan=plan),
        "a run": proven(plan),
        "a refusal": ReportDocument(plan=plan, error=error),
        "two subtasks": plan_report((2, 128), (3, 128)),
        "another maximum": proven(plan_of_report((4, 128), (6, 1000))),
        "a divisor": plan_report((6, 128), (6, 64)),
        "64 subtasks": plan_report((64, 256), (48, 256)),
        "more": plan_report((200, 1024), (300, 1024), 2),
        "hashed anew, all to all": plan_report((64, 128), (64, 1000), 2),
    }


@cache
def page(name: str) -> ParsedPage:
    return ParsedPage(html_report(documents()[name]).decode())


DOCUMENT_NAMES = tuple(documents())


@pytest.mark.parametrize("name", DOCUMENT_NAMES)
def test_report_loads_nothing_and_runs_no_script(name: str) -> None:
    parsed = page(name)
    for tag, attributes in parsed.elements:
        assert not [
            attribute
            for attribute in attributes
            if attribute.startswith("on") or attribute in ("style", "src", "action", "srcdoc")
        ]
        for link_attribute in ("href", "xlink:href"):
            assert (attributes.get(link_attribute) or "#").startswith(("#", "data:image/png;base64,")), tag
    assert [attributes["type"] for attributes in parsed.attributes_of("script")] == ["application/json"]
    (policy,) = [a["content"] for a in parsed.attributes_of("meta") if a.get("http-equiv") == "Content-Security-Policy"]
    digest = base64.b64encode(hashlib.sha256(parsed.texts["style"][0].encode()).digest()).decode()
    assert policy == (
        f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )
    assert "url(" not in parsed.texts["style"][0]


@pytest.mark.parametrize("name", DOCUMENT_NAMES)
def test_report_is_readable_with_a_screen_reader(name: str) -> None:
    parsed = page(name)
    assert parsed.attributes_of("html")[0]["lang"] == "en"
    assert all(a["aria-label"] for a in parsed.attributes_of("svg") if a.get("role") == "img")
    assert all(a.get("scope") for a in parsed.attributes_of("th"))
    levels = [int(tag[1]) for tag, _ in parsed.elements if tag in ("h1", "h2", "h3", "h4", "h5", "h6")]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert (
        len(parsed.attributes_of("details")) >= len(parsed.attributes_of("figure")) - 1
    )  # all figures but one have a table of their numbers
    ids = Counter(a["id"] for _, a in parsed.elements if "id" in a)
    assert set(ids.values()) == {1}
    assert {str(a["href"])[1:] for a in parsed.attributes_of("a")} <= set(ids)
    assert all(a.get("aria-labelledby", "") in ids for a in parsed.attributes_of("section"))


@pytest.mark.parametrize("name", DOCUMENT_NAMES)
def test_report_shows_the_progress_of_the_run_and_holds_its_data(name: str) -> None:
    parsed, document = page(name), documents()[name]
    last_steps = {"a snapshot": "Snapshot", "a run": "Proven", "a refusal": "Refused", "another maximum": "Proven"}
    assert last_steps.get(name, "Planned") in parsed.texts["strong"]
    data = json.loads(parsed.texts["script"][0])
    assert data["report"] == 1
    embedded_values, source_values = (
        values["plan"] or values["snapshot"] for values in (data, msgspec.to_builtins(document))
    )
    assert [operator["label"] for operator in embedded_values["operators"]] == [
        operator["label"] for operator in source_values["operators"]
    ]
    assert embedded_values["warnings"] == list(source_values["warnings"])


def test_report_names_source_state_that_is_not_in_the_result() -> None:
    dropping = Surgery(dropped=(Dropped("ab" * 16, "totals", 1234, ()),))
    document = documents()["a run"]
    assert document.certificate is not None
    document = structs.replace(document, certificate=replace(document.certificate, surgery=dropping))
    sentence = "every part of the source is in the result{}, and the result is published"
    assert sentence.format("") in html_report(documents()["a run"]).decode()
    assert sentence.format(" except what was dropped (1 operator)") in html_report(document).decode()


def as_json(document: ReportDocument) -> dict[str, Any]:
    values: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(document))
    return values


def with_markup(value: Any) -> Any:
    """Return the document with markup in place of every text that may come from a snapshot."""
    if isinstance(value, dict):
        text_keys = (
            "label",
            "state",
            "operator",
            "topic",
            "source",
            "target",
            "start",
            "what",
            "advice",
            "key",
            "name",
        )
        return {k: EVIL if k in text_keys and isinstance(v, str) else with_markup(v) for k, v in value.items()}
    if isinstance(value, list):
        return [EVIL if isinstance(item, str) else with_markup(item) for item in value]
    return value


@pytest.mark.parametrize("name", DOCUMENT_NAMES)
def test_names_in_a_report_never_become_markup(name: str) -> None:
    document = msgspec.convert(with_markup(as_json(documents()[name])), ReportDocument)
    text = html_report(document).decode()
    parsed = ParsedPage(text)
    assert not parsed.attributes_of("img")
    assert len(parsed.attributes_of("script")) == 1
    assert "alert('1')" not in " ".join(parsed.texts["title"][:1])
    assert any("<script>alert('1')</script>" in cell for cell in parsed.texts["td"])
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert json.loads(parsed.texts["script"][0])["report"] == 1


@pytest.mark.slow
def test_axes_of_a_curve_are_labelled() -> None:
    parsed = page("a plan")
    curves = sum(attributes.get("class") == "drawing curve" for attributes in parsed.attributes_of("svg"))
    assert curves > 0
    assert [parsed.texts["text"].count(name) for name in ("worst ÷ mean", "parallelism")] == [curves, curves]


@pytest.mark.slow
def test_report_of_a_large_plan_stays_small() -> None:
    """50 operators with 32,768 key groups each, at 96 subtasks and at 2,000; 500 operators with as many warnings."""
    small_report = plan_report((64, 256), (96, 256), 2)
    for parallelism, operator_count, max_parallelism in ((96, 50, 32768), (2000, 50, 32768), (96, 500, 256)):
        large_document = as_json(small_report)
        plan = large_document["plan"]
        template = next(operator for operator in plan["operators"] if operator["keyed_bytes"])
        groups, shape = plan["insight"]["key_groups"][0], plan["insight"]["shapes"][0]
        plan["operators"], plan["insight"]["key_groups"], plan["insight"]["shapes"] = [], [], []
        for i in range(operator_count):
            identity = {"operator_id": f"{i:032x}", "label": f"an operator with quite a long name, number {i}"}
            shape_fields = {
                "new_parallelism": parallelism,
                "max_parallelism": max_parallelism,
                "new_max_parallelism": max_parallelism,
            }
            plan["operators"].append({**template, **identity, **shape_fields})
            sizes = [1_000_000 + (i + 1) * 7919 * group % 999_983 for group in range(max_parallelism)]
            plan["insight"]["key_groups"].append({**groups, **identity, "before": sizes, "after": sizes})
            plan["insight"]["shapes"].append({**shape, **identity})
        plan["warnings"] = [f"{operator['label']}: something to know" for operator in plan["operators"]]
        html = html_report(msgspec.convert(large_document, ReportDocument))
        assert len(html) < LARGEST_REPORT_BYTES == 300_000
        assert "number 0" in html.decode()


@pytest.mark.parametrize("rename_count", [0, 1500])
def test_report_of_a_large_certificate_stays_small(rename_count: int) -> None:
    """The certificate has 1,500 operators and 30,000 files."""
    plan, ids = plan_of_report((4, 128), (6, 128), 2), [f"{i:032x}" for i in range(1500)]
    directories = CertifiedDirectories(by_files=6, by_records=0, files_referred_to=12, files_copied=2, deleted_ranges=4)
    counts = {"key_groups": 128, "elements": 3, "broadcast_copies": 0, "bytes": 10**6, "digest": "ab" * 16}
    operators = [
        CertifiedOperator(i, f"number {i}", 6, 128, **counts, records=None, directories=directories) for i in ids
    ]
    renames = Surgery(tuple(Renamed(i, f"number {i}", i, f"new {i}", f"new {i}") for i in ids[:rename_count]))
    certificate = Certificate(
        verdict="complete",
        proves="every part",
        does_not_prove=None,
        digests="sums",
        source="/state/savepoint",
        source_metadata_sha256="ab" * 32,
        target="/state/rescaled",
        candidate_sha256="cd" * 32,
        plan=plan.plan,
        warnings=(),
        bytes=10**9,
        operators=tuple(operators),
        files=tuple(CertifiedFile(f"{i:032x}-keyed-0-abcdef01", 10**6, None, 17 * 10**17 + i) for i in range(30_000)),
        start="flink run",
        surgery=renames if rename_count else NO_SURGERY,
    )
    plan = structs.replace(plan, surgery=certificate.surgery)
    html = html_report(ReportDocument(plan=plan, certificate=certificate, published=True))
    assert len(html) < LARGEST_REPORT_BYTES
    assert (b"is renamed to new" in html) is bool(rename_count)
