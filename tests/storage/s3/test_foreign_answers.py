"""Answers that S3 does not give: web pages, redirects, and success without content."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rescale.storage.contract import Pin, Span
from rescale.storage.s3.s3_store import S3Store
from rescale.text.errors import RequestError, StoreError
from support.scripted_s3 import Answer, ScriptedServer

_URI = "s3://bucket/key"


@pytest.mark.parametrize("ask", [S3Store.stat, S3Store.modification_time, lambda store, uri: store.read_all(uri, 9)])
def test_endpoint_that_answers_with_a_web_page_is_refused(
    ask: Callable[[S3Store, str], object], server: ScriptedServer
) -> None:
    """A web console, or a proxy with a login page, may answer so."""
    server.answers = [Answer(200, b"<html>", etag="")]
    with pytest.raises(RequestError, match="is not S3"):
        ask(S3Store(), _URI)


PAGE = Answer(200, b"<html><head><title>Back soon</title></head></html>", etag="")
SOURCE = Span("s3://bucket/source", 0, 4, Pin(4, etag='"abc"'))
REQUESTS_OF_STORE = [
    lambda store: store.list("s3://bucket/a"),
    lambda store: store.folder_names("s3://bucket/a"),
    lambda store: store.put(_URI, b"1234"),
    lambda store: store.begin_parts(_URI, ""),
    lambda store: store.put_part(_URI, "token", 1, 0, b"1234"),
    lambda store: store.copy(_URI, SOURCE),
    lambda store: store.copy_part(_URI, "token", 1, 0, SOURCE),
    lambda store: store.complete_parts(_URI, "token", ["1"], 4),
    lambda store: store.abort_parts(_URI),
]


@pytest.mark.parametrize(
    ("answer", "shown_text"), [(PAGE, "Back soon"), (Answer(200, etag=""), "no content")], ids=["page", "nothing"]
)
@pytest.mark.parametrize("ask", REQUESTS_OF_STORE)
def test_answers_that_are_not_of_s3_are_retried_and_then_shown(
    ask: Callable[[S3Store], object], answer: Answer, shown_text: str, server: ScriptedServer
) -> None:
    """A proxy may answer so while the store is away; boto3 takes it for success, or for an empty listing."""
    server.answers = [answer] * 8 + [Answer(404)]
    with pytest.raises(StoreError, match="has status 200 without") as caught:
        ask(S3Store())
    assert shown_text in str(caught.value.found)
    assert len(server.requests) >= 8


def test_answer_after_web_pages_counts(server: ScriptedServer) -> None:
    upload_xml = b"<InitiateMultipartUploadResult><UploadId>7</UploadId></InitiateMultipartUploadResult>"
    server.answers = [PAGE, PAGE, Answer(200, b'<?xml version="1.0"?>\n \n ' + upload_xml)]
    assert S3Store().begin_parts(_URI, "") == "7"


@pytest.mark.parametrize("ask", [REQUESTS_OF_STORE[5], REQUESTS_OF_STORE[7]], ids=["copy", "complete"])
def test_error_in_an_answer_with_status_200_is_retried(
    ask: Callable[[S3Store], object], server: ScriptedServer
) -> None:
    """S3 sends the status before it begins with the work, and white space while it works."""
    error_xml = b'<?xml version="1.0"?>\n \n <Error><Code>SlowDown</Code><Message>later</Message></Error>'
    server.answers = [Answer(200, error_xml)] * 2 + [Answer(200, b'<?xml version="1.0"?>\n <R><ETag>"abc"</ETag></R>')]
    ask(S3Store())
    assert len(server.requests) == 3


@pytest.mark.parametrize("status", [301, 302, 307, 308])
@pytest.mark.parametrize(
    "ask",
    [
        S3Store.stat,
        S3Store.list,
        lambda store, uri: store.read(uri, 0, 4),
        lambda store, uri: store.put(uri, b"1234"),
        lambda store, uri: store.put_if_absent(uri, b"1234"),
    ],
)
def test_endpoint_that_redirects_requests_is_refused(
    ask: Callable[[S3Store, str], object], status: int, server: ScriptedServer
) -> None:
    """An ingress redirects from http:// to https://, and a proxy to its login page; boto3 would ask without an end."""
    page = b"<html><head><title>Moved</title></head></html>"
    server.answers = [Answer(status, page, headers={"Location": "https://store.example/bucket"})]
    with pytest.raises(RequestError, match="redirects requests to another address") as caught:
        ask(S3Store(), _URI)
    assert "https://store.example/bucket" in str(caught.value.found)
    assert len(server.requests) <= 3
