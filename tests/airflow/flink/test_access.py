"""Access to Flink's REST API: addresses, connections with secrets, servers in trouble."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from rescale.airflow.flink.flink_access import open_flink
from rescale.airflow.hand_overs import PatchDeployment, Print, RunJar, hand_over_of
from rescale.flink_rest.client import Flink
from rescale.text.errors import RequestError, StoreError
from support.http_servers import LocalServer, QuietHandler, serving


class Proxy(LocalServer):
    """Server that answers every request with `answer`, and records path and authorization of each."""

    answer: tuple[int, str] = (200, "{}")
    seen: list[tuple[str, str | None]]


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    class Handler(QuietHandler):
        def answer(self) -> None:
            server.seen.append((self.path, self.headers["Authorization"]))
            self.reply(*server.answer)

    with serving(Proxy(Handler)) as server:
        server.seen = []
        yield server


@pytest.mark.parametrize(
    ("secrets", "sent"),
    [
        ({}, None),
        ({"password": "a-token"}, "Bearer a-token"),
        ({"login": "me", "password": "pass"}, "Basic " + base64.b64encode(b"me:pass").decode()),
    ],
)
def test_connection_gives_address_and_secret(
    proxy: Proxy, secrets: dict[str, str], sent: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy.answer = (200, '{"jobs": []}')
    connection = {"conn_type": "http", "host": "127.0.0.1", "port": proxy.server_port, **secrets}
    monkeypatch.setenv("AIRFLOW_CONN_SESSION", json.dumps(connection))
    with open_flink("session") as flink:
        assert flink.jobs() == []
    with open_flink(f"{proxy.address}/behind/") as flink:
        assert flink.jobs() == []
    assert proxy.seen == [("/jobs/overview", sent), ("/behind/jobs/overview", None)]


def test_extra_of_a_connection_is_read_as_the_hook_of_airflow_does(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy.answer = (200, '{"jobs": []}')
    extra = {"headers": {"Authorization": "Bearer of-the-extra"}, "timeout": 5, "verify": False}
    connection = {"conn_type": "http", "host": "127.0.0.1", "port": proxy.server_port, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_SESSION", json.dumps(connection))
    with open_flink("session") as flink:
        assert flink.jobs() == []
    assert proxy.seen == [("/jobs/overview", "Bearer of-the-extra")]


@pytest.mark.parametrize(
    "secrets",
    [{"password": "planted\n"}, {"extra": {"headers": {"X-Key": "planted\x00"}}}, {"extra": {"X-Key": "plantedé"}}],
)
def test_secret_that_cannot_be_sent_is_not_shown(secrets: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SESSION", json.dumps({"conn_type": "http", "host": "127.0.0.1", **secrets}))
    with pytest.raises(RequestError, match="characters that an HTTP header may not contain") as caught:
        open_flink("session")
    assert "planted" not in f"{caught.value} {caught.value.document()}"


def test_unreadable_certificates_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = {"conn_type": "http", "host": "https://flink", "extra": {"verify": "/nothing/there.pem"}}
    monkeypatch.setenv("AIRFLOW_CONN_SESSION", json.dumps(connection))
    with pytest.raises(RequestError, match="the certificates of the connection 'session' cannot be read"):
        open_flink("session")


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"headers": "X-Key: planted"}, r"has a wrong value: headers"),
        ({"proxies": "http://me:planted@proxy:3128"}, r"has a wrong value: proxies"),
        ({"proxies": {"http": "planted:3128"}}, r"a proxy that is not an address: proxies\.http"),
        ({"proxies": {"http": "http://planted:at@proxy:x"}}, r"a proxy that is not an address: proxies\.http"),
        ({"proxies": {"http": "http://planted:at@proxy:70000"}}, r"a proxy that is not an address: proxies\.http"),
        ({"proxies": {"http": "http://planted:at@proxy:0"}}, r"a proxy that is not an address: proxies\.http"),
        ({"proxies": {"http": "http://planted:at@:3128"}}, r"a proxy that is not an address: proxies\.http"),
        ({"proxies": {"http": 3128}}, r"a proxy that is not an address: proxies\.http"),
    ],
)
def test_invalid_extra_is_refused_without_showing_it(
    extra: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SESSION", json.dumps({"conn_type": "http", "host": "flink", "extra": extra}))
    with pytest.raises(RequestError, match=message) as caught:
        open_flink("session")
    assert "planted" not in str(caught.value)


@pytest.mark.parametrize(
    ("extra", "seen"),
    [
        ({"headers": None, "proxies": None}, "/jobs/overview"),
        ({"headers": {"X-Team": 7}}, "/jobs/overview"),
        ({"proxies": {"https": "http://127.0.0.1:9"}}, "/jobs/overview"),
        ({"proxies": {"http": "PROXY", "https": "http://127.0.0.1:9"}}, "http://flink.invalid/jobs/overview"),
    ],
)
def test_headers_and_proxies_of_an_extra_apply_to_their_scheme(
    proxy: Proxy, extra: dict[str, Any], seen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy.answer = (200, '{"jobs": []}')
    host = {"host": "flink.invalid"} if "invalid" in seen else {"host": "127.0.0.1", "port": proxy.server_port}
    connection = json.dumps({"conn_type": "http", **host, "extra": extra}).replace("PROXY", proxy.address)
    monkeypatch.setenv("AIRFLOW_CONN_SESSION", connection)
    with open_flink("session") as flink:
        assert flink.jobs() == []
    assert [path for path, _ in proxy.seen] == [seen]


@pytest.mark.parametrize(
    ("flink", "sentence"),
    [
        ("http://me:secret@flink:8081", "the address contains a login or password"),
        ("ftp://flink:8081", "not an address of Flink's REST API"),
        ("http://flink:8O81", "not an address of Flink's REST API"),
        ("http://flink:80811", "not an address of Flink's REST API"),
        ("http://[flink:8081", "not an address of Flink's REST API"),
        ("nobody", "there is no connection 'nobody'"),
        ("of_s3", "the connection 'of_s3' does not say where Flink's REST API is"),
    ],
)
def test_invalid_address_is_refused(flink: str, sentence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_OF_S3", json.dumps({"conn_type": "aws", "host": "flink"}))
    with pytest.raises(RequestError, match=sentence) as caught:
        open_flink(flink)
    assert "secret@" not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "body", "kind", "message"),
    [
        (401, "", RequestError, "name an Airflow connection with login and password"),
        (404, '{"errors": ["Not found"]}', RequestError, "Flink does not know this resource"),
        (404, "", StoreError, "this address is not Flink's REST API"),
        (404, '{"errors": null}', StoreError, "this address is not Flink's REST API"),
        (400, '{"errors": [{"code": 7}]}', RequestError, 'status 400: {"errors": [{"code": 7}]}'),
        (200, "[]", RequestError, "this address is not Flink's REST API"),
        (200, '{"status": "up"}', RequestError, "missing required field `jobs`"),
        (200, '{"jobs": [{"jid": "0"}]}', RequestError, "missing required field `name` - at `$.jobs[0]`"),
        (200, "\xff", RequestError, "this address is not Flink's REST API"),
        (400, '{"errors": ["a: b\\n\\tat C.d\\nCaused by: e: f"]}', RequestError, "status 400: a: b <- e: f"),
        (200, "<html>Log in", RequestError, "this address is not Flink's REST API"),
        (503, '{"errors": ["Service temporarily unavailable"]}', StoreError, "Service temporarily unavailable"),
        (502, "<html>Bad gateway", StoreError, "status 502"),
    ],
)
def test_refusal_of_flink_is_final_and_server_trouble_is_a_store_error(
    proxy: Proxy, status: int, body: str, kind: type[RequestError | StoreError], message: str
) -> None:
    proxy.answer = (status, body)
    with open_flink(proxy.address) as flink, pytest.raises(kind) as caught:
        flink.jobs()
    assert message in str(caught.value)


def test_unreachable_flink_raises_store_error() -> None:
    with open_flink("http://127.0.0.1:9") as flink, pytest.raises(StoreError, match="Flink cannot be reached"):
        flink.job("0" * 32)


def test_answer_that_a_proxy_has_damaged_raises_store_error() -> None:
    answer = httpx.Response(200, headers={"Content-Encoding": "gzip"}, stream=httpx.ByteStream(b'{"jobs": []}'))
    flink = Flink("http://flink", transport=httpx.MockTransport(lambda _: answer))
    with pytest.raises(StoreError, match="Flink cannot be reached"):
        flink.jobs()


def test_unknown_job_or_savepoint_is_none(proxy: Proxy) -> None:
    proxy.answer = (404, '{"errors": ["Job not found"]}')
    with open_flink(proxy.address) as flink:
        assert flink.job("0" * 32) is None
        assert flink.savepoint("0" * 32, "1" * 32) is None
        assert flink.latest_savepoint_uri("0" * 32) is None


def test_unknown_page_of_another_server_raises_store_error(proxy: Proxy) -> None:
    """If its 404 counted as an unknown job, the job would be started a second time."""
    proxy.answer = (404, "<html>no such page")
    with open_flink(proxy.address) as flink:
        for ask in (flink.job, flink.failure_messages, flink.latest_savepoint_uri):
            with pytest.raises(StoreError, match="this address is not Flink's REST API"):
                ask("0" * 32)


def test_hand_over_is_read_from_its_document() -> None:
    assert hand_over_of({"kind": "print"}) == Print()
    jar = {"kind": "jar", "flink": "session", "jar": "job.jar", "arguments": ["--x", "1"]}
    assert hand_over_of(jar) == RunJar("session", "job.jar", arguments=("--x", "1"))
    deployment = {"kind": "deployment", "namespace": "flink", "name": "job"}
    assert hand_over_of(deployment) == PatchDeployment("flink", "job")
    for wrong in ({}, {"kind": "email"}, {"kind": "jar"}, {**deployment, "jar": "job.jar"}):
        with pytest.raises(RequestError, match="the hand-over is not valid"):
            hand_over_of(wrong)
