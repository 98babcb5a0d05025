"""S3 stores that behave differently from moto: they fail, ignore conditions, or refuse requests."""

from __future__ import annotations

import ssl
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from types import SimpleNamespace

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from rescale.storage.contract import CopyRefused, Pin, Span
from rescale.storage.s3.s3_client import CONNECT_SECONDS, READ_SECONDS, RETRY_SECONDS, client_for
from rescale.storage.s3.s3_requests import REQUESTS
from rescale.storage.s3.s3_store import S3Store
from rescale.text.errors import RequestError, RescaleError, SnapshotError, StoreError, UnsupportedError
from support.scripted_s3 import HANG_UP, SILENCE, Answer, ScriptedServer

_URI = "s3://bucket/key"
_PIN = Pin(4, etag='"abc"')


def _certificate_of_this_machine() -> bytes:
    """Return a self-signed certificate with its key, in PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name, now = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")]), datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(1)).not_valid_after(now + timedelta(1))
    alternative_name = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    certificate = builder.add_extension(alternative_name, critical=False).sign(key, hashes.SHA256())
    private_key = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return certificate.public_bytes(serialization.Encoding.PEM) + private_key


def test_read_from_a_busy_server_is_repeated(server: ScriptedServer) -> None:
    server.answers = [Answer(503), Answer(500), Answer(206, b"1234")]
    assert S3Store().read(_URI, 0, 4) == b"1234"
    assert len(server.requests) == 3


def test_read_from_a_server_that_stays_busy_is_a_store_error(server: ScriptedServer) -> None:
    server.answers = [Answer(503)]
    with pytest.raises(StoreError):
        S3Store().read(_URI, 0, 4)
    assert len(server.requests) == 8


@pytest.mark.parametrize("sent_bytes", [0, 2])
def test_read_whose_body_breaks_off_is_repeated(server: ScriptedServer, sent_bytes: int) -> None:
    broken_answer = Answer(206, b"1234", sent=sent_bytes)
    server.answers = [broken_answer, Answer(503), broken_answer, Answer(206, b"1234")]
    assert S3Store().read(_URI, 0, 4) == b"1234"
    assert len(server.requests) == 4
    server.requests.clear()
    server.answers = [broken_answer, Answer(200, b"1234")]
    assert S3Store().read_all(_URI, 4) == (b"1234", Pin(4, etag='"abc"'))


def test_repeated_read_of_an_object_that_changed_is_refused(server: ScriptedServer) -> None:
    server.answers = [Answer(206, b"1234", sent=2), Answer(412), Answer(412), Answer(200, etag='"other"')]
    with pytest.raises(SnapshotError, match="has changed"):
        S3Store().read(_URI, 0, 4, _PIN)


@pytest.mark.parametrize(
    ("status", "code", "error_class"),
    [
        (403, "AccessDenied", RequestError),
        (400, "ExpiredToken", RequestError),
        (400, "AuthorizationHeaderMalformed", RequestError),
        (404, "NoSuchBucket", RequestError),
        (404, "NoSuchKey", SnapshotError),
        (416, "InvalidRange", SnapshotError),
        (409, "OperationAborted", StoreError),
    ],
)
def test_error_answers_to_a_read_become_errors_of_the_right_class(
    server: ScriptedServer, status: int, code: str, error_class: type[RescaleError]
) -> None:
    """The same classes as for all other requests (`test_s3_errors`)."""
    server.answers = [Answer(status, f"<Error><Code>{code}</Code><Message>said</Message></Error>".encode())]
    with pytest.raises(RescaleError) as caught:
        S3Store().read(_URI, 2, 2)
    assert type(caught.value) is error_class


@pytest.mark.parametrize("is_trusted", [True, False])
def test_reads_need_a_trusted_certificate(
    server: ScriptedServer, is_trusted: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    certificate = tmp_path / "certificate.pem"
    certificate.write_bytes(_certificate_of_this_machine())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server.answers = [Answer(206, b"1234")]
    server.over(context)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"https://127.0.0.1:{server.port}")
    if is_trusted:
        monkeypatch.setenv("AWS_CA_BUNDLE", str(certificate))
        assert S3Store().read(_URI, 0, 4) == b"1234"
    else:
        for ask in (lambda: S3Store().read(_URI, 0, 4), lambda: S3Store().list("s3://bucket/a")):
            with pytest.raises(RequestError, match=r"certificate that is not trusted: .*verify failed") as caught:
                ask()
            assert "AWS_CA_BUNDLE" in (caught.value.advice or "")
        assert server.requests == []


def test_read_from_a_store_that_ignores_ranges_is_a_store_error(server: ScriptedServer) -> None:
    server.answers = [Answer(200, b"1234")]
    with pytest.raises(StoreError, match="more bytes of an object than were requested"):
        S3Store().read(_URI, 0, 2)


def test_body_longer_than_the_range_is_refused_unread(server: ScriptedServer) -> None:
    """The body may be larger than memory."""
    server.answers = [Answer(200, b"1234", sent=0)]
    with pytest.raises(StoreError, match="more bytes of an object than were requested"):
        S3Store().read(_URI, 0, 2)
    assert len(server.requests) == 1


@pytest.mark.parametrize("checks_answers", [False, True])
def test_answer_to_another_range_is_refused(
    server: ScriptedServer, checks_answers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cache that does not tell ranges apart sends the same bytes for each of them, with the ETag of the object."""
    if checks_answers:  # then boto3 sends the requests
        monkeypatch.setenv("AWS_RESPONSE_CHECKSUM_VALIDATION", "when_supported")
    server.answers = [Answer(206, b"1234", headers={"Content-Range": "bytes 0-3/8"})]
    assert S3Store().read(_URI, 0, 4, _PIN) == b"1234"
    with pytest.raises(StoreError, match="other bytes of an object than were requested") as caught:
        S3Store().read(_URI, 4, 4, _PIN)
    assert (caught.value.offset, caught.value.found) == (4, "bytes 0-3/8")


def test_object_that_ends_within_a_range_is_too_short(server: ScriptedServer) -> None:
    server.answers = [Answer(206, b"34", headers={"Content-Range": "bytes 2-3/4"})]
    with pytest.raises(SnapshotError, match="ends too early"):
        S3Store().read(_URI, 2, 4)


def test_reads_accept_bodies_in_chunks(server: ScriptedServer) -> None:
    """A proxy may send such bodies. No header says how long they are."""
    server.answers = [Answer(206, b"4\r\n1234\r\n0\r\n\r\n", chunked=True)]
    assert S3Store().read(_URI, 0, 4) == b"1234"
    assert S3Store().read_all(_URI, 4) == (b"1234", _PIN)
    with pytest.raises(SnapshotError, match="is too large"):
        S3Store().read_all(_URI, 3)
    with pytest.raises(StoreError, match="more bytes of an object than were requested"):
        S3Store().read(_URI, 0, 2)


@pytest.mark.parametrize("ask", [S3Store.stat, lambda store, uri: store.checksums(uri, _PIN)])
def test_proxy_that_hides_the_size_of_an_object_is_refused(
    ask: Callable[[S3Store, str], object], server: ScriptedServer
) -> None:
    server.answers = [Answer(200, b"", chunked=True)]
    with pytest.raises(RequestError, match="no header Content-Length"):
        ask(S3Store(), _URI)


def test_read_accepts_a_body_in_chunks_between_other_answers(server: ScriptedServer) -> None:
    """The next answer comes over the same connection, or over a new one."""
    server.answers = [Answer(206, b"4\r\n1234\r\n0\r\n\r\n", chunked=True), Answer(206, b"1234")]
    assert S3Store().read(_URI, 0, 4) == b"1234"
    server.answers = [Answer(503, b"4\r\nbusy\r\n0\r\n\r\n", chunked=True), Answer(206, b"1234")]
    server.requests.clear()
    assert S3Store().read(_URI, 0, 4) == b"1234"
    assert len(server.requests) == 2


def test_reads_go_through_a_proxy(server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{server.port}")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://store.example:9000")
    server.answers = [Answer(503), Answer(206, b"1234")]
    assert S3Store().read(_URI, 0, 4) == b"1234"
    assert server.paths == ["http://store.example:9000/bucket/key"] * 2
    assert {headers["Host"] for headers in server.headers} == {"store.example:9000"}


def test_requests_and_retries_of_reads_are_counted(server: ScriptedServer) -> None:
    server.answers = [Answer(503), HANG_UP, Answer(206, b"12", sent=1), Answer(206, b"12")]
    requests_before, retries_before = REQUESTS.by_operation, REQUESTS.repeat_count
    S3Store().read(_URI, 0, 2)
    assert REQUESTS.by_operation - requests_before == {"GetObject": 4}
    assert REQUESTS.repeat_count - retries_before == 2, "a body that broke off leads to a new request"


def test_object_name_is_quoted_as_boto3_quotes_it(server: ScriptedServer) -> None:
    server.answers = [Answer(206, b"12")]
    S3Store().read("s3://bucket/a b/ü%2F?&+=~'(é)", 0, 2)
    S3Store(client_for()).read("s3://bucket/a b/ü%2F?&+=~'(é)", 0, 2)
    first, second = server.paths
    assert first == second


def test_read_whose_body_always_breaks_off_is_a_store_error(server: ScriptedServer) -> None:
    server.answers = [Answer(206, b"1234", sent=2)]
    with pytest.raises(StoreError):
        S3Store().read(_URI, 0, 4)
    assert len(server.requests) == 8


@pytest.mark.parametrize(
    "ask",
    [
        lambda store: store.stat(_URI),
        lambda store: store.read(_URI, 0, 4),
        lambda store: store.put(_URI, b"x"),
        lambda store: store.list(_URI),
    ],
)
def test_request_to_a_silent_store_is_given_up_after_two_attempts(
    server: ScriptedServer, ask: Callable[[S3Store], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two attempts instead of eight, because each takes all of its time, which is simulated here."""
    requests_before = REQUESTS.by_operation
    clock = SimpleNamespace(
        monotonic=lambda: READ_SECONDS * (REQUESTS.by_operation - requests_before).total(), sleep=lambda _: None
    )
    for module in ("s3_client", "object_reads", "pinned_objects"):
        monkeypatch.setattr(f"rescale.storage.s3.{module}.time", clock)
    monkeypatch.setattr("rescale.storage.s3.s3_client.READ_SECONDS", READ_SECONDS / 100)
    server.answers = [SILENCE]
    with pytest.raises(StoreError):
        ask(S3Store())
    assert (REQUESTS.by_operation - requests_before).total() == 2


def test_time_limits_of_retries_add_up_to_at_most_two_minutes() -> None:
    longest_pause = 20  # seconds between two attempts of botocore
    assert RETRY_SECONDS + longest_pause + CONNECT_SECONDS + READ_SECONDS <= 120


def test_listing_that_breaks_off_is_repeated(server: ScriptedServer) -> None:
    listing = b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"
    server.answers = [Answer(200, listing, sent=20), Answer(200, listing)]
    assert S3Store().list("s3://bucket/directory") == []
    assert len(server.requests) == 2


@pytest.mark.parametrize("next_marker", [b"", b"<NextMarker>directory/a</NextMarker>"])
def test_listing_that_names_no_next_page_is_refused(server: ScriptedServer, next_marker: bytes) -> None:
    """Stores that know only the first version of ListObjects answer so, and the rest of the files would be missing."""
    listing = b"<ListBucketResult><IsTruncated>true</IsTruncated>%s</ListBucketResult>" % next_marker
    server.answers = [Answer(200, listing)]
    with pytest.raises(UnsupportedError, match="ListObjectsV2"):
        S3Store().list("s3://bucket/directory")


def test_read_is_repeated_with_an_etag_without_quotes(server: ScriptedServer) -> None:
    server.answers = [Answer(412), Answer(206, b"1234")]
    assert S3Store().read(_URI, 0, 4, _PIN) == b"1234"
    assert [request[1] for request in server.requests] == ['"abc"', "abc"]


def test_read_of_a_changed_object_is_refused_if_the_store_ignores_if_match(server: ScriptedServer) -> None:
    server.answers = [Answer(206, b"1234", etag='"another"')]
    with pytest.raises(SnapshotError, match="has changed"):
        S3Store().read(_URI, 0, 4, _PIN)


def test_store_that_ignores_if_none_match_does_not_honour_conditions(server: ScriptedServer) -> None:
    server.answers = [Answer(200)]
    store = S3Store()
    assert store.put_if_absent(_URI, b"claim")
    assert not store.honours_conditions(_URI, b"claim")
    assert [request[2] for request in server.requests] == ["*", "*"]


def test_repeated_put_if_absent_recognises_its_own_object(server: ScriptedServer) -> None:
    server.answers = [HANG_UP, Answer(412), Answer(200, b"claim")]
    assert S3Store().put_if_absent(_URI, b"claim")
    assert [request[0] for request in server.requests] == ["PUT", "PUT", "GET"]


@pytest.mark.parametrize("read_answer", [Answer(200, b"other"), Answer(200, b"longer than it"), Answer(404)])
def test_put_if_absent_loses_to_an_object_of_another_writer(server: ScriptedServer, read_answer: Answer) -> None:
    server.answers = [Answer(412), read_answer]
    assert not S3Store().put_if_absent(_URI, b"claim")


@pytest.mark.parametrize("status", [403, 405, 501])
def test_store_that_refuses_a_copy_is_not_asked_for_another(server: ScriptedServer, status: int) -> None:
    server.answers = [Answer(status)]
    store, span = S3Store(), Span("s3://bucket/source", 0, 4, _PIN)
    with pytest.raises(CopyRefused):
        store.copy(_URI, span)
    with pytest.raises(CopyRefused):
        store.copy_part(_URI, "token", 1, 0, span)
    assert len(server.requests) == 1


def test_copy_is_repeated_with_an_etag_without_quotes(server: ScriptedServer) -> None:
    server.answers = [Answer(412), Answer(200, b"<CopyPartResult><ETag>x</ETag></CopyPartResult>")]
    assert S3Store().copy_part(_URI, "token", 1, 0, Span("s3://bucket/source", 0, 4, _PIN)) == "x"
    assert server.copy_conditions == ['"abc"', "abc"]


def test_copy_with_an_error_in_a_200_answer_is_repeated(server: ScriptedServer) -> None:
    """S3 begins to answer with status 200 before it has copied, so an error comes in the body."""
    failed_answer = Answer(200, b"<Error><Code>InternalError</Code><Message>we are sorry</Message></Error>")
    server.answers = [failed_answer, Answer(200, b"<CopyObjectResult><ETag>x</ETag></CopyObjectResult>")]
    S3Store().copy(_URI, Span("s3://bucket/source", 0, 4, _PIN))
    assert len(server.requests) == 2


def test_put_if_absent_is_repeated_after_conflicts(server: ScriptedServer) -> None:
    server.answers = [Answer(409), Answer(409), Answer(200)]
    assert S3Store().put_if_absent(_URI, b"claim")


def test_put_if_absent_that_always_conflicts_is_a_store_error(server: ScriptedServer) -> None:
    server.answers = [Answer(409)]
    with pytest.raises(StoreError, match="conflicting"):
        S3Store().put_if_absent(_URI, b"claim")


def test_boto3_is_not_imported_for_a_local_store() -> None:
    program = (
        "import sys; from rescale.storage.store import open_store; open_store('/tmp'); print('boto3' in sys.modules)"
    )
    assert subprocess.check_output([sys.executable, "-c", program], text=True).strip() == "False"


def test_stats_ask_for_each_object_if_listing_is_forbidden(server: ScriptedServer) -> None:
    server.answers = [Answer(403), Answer(200)]
    uris = [f"s3://bucket/directory/{i}" for i in range(20)]
    assert S3Store().stats(uris) == [Pin(0, etag='"abc"')] * 20
    assert [request[0] for request in server.requests] == ["GET", *["HEAD"] * 20]


def test_stats_stop_listing_at_a_page_of_unwanted_objects(server: ScriptedServer) -> None:
    entry = "<Contents><Key>directory/{}{}</Key><Size>4</Size><ETag>&quot;abc&quot;</ETag></Contents>"
    wanted_entries, other_entries = ("".join(entry.format(name, i) for i in range(20)) for name in "ab")
    more_pages = "<IsTruncated>true</IsTruncated><NextContinuationToken>more</NextContinuationToken>"
    server.answers = [
        Answer(200, f"<ListBucketResult>{more_pages}{entries}</ListBucketResult>".encode())
        for entries in (wanted_entries, other_entries)
    ]
    server.answers += [Answer(404)]
    uris = [f"s3://bucket/directory/{name}{i}" for name in "ac" for i in range(20)]
    assert S3Store().stats(uris) == [Pin(4, etag='"abc"')] * 20 + [None] * 20
    assert [request[0] for request in server.requests] == ["GET", "GET", *["HEAD"] * 20]
