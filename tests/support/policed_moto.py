"""moto's S3 server behind a policy: `python -m support.policed_moto PORT REFUSALS [HOSTED]`.

REFUSALS is a file for refused requests, HOSTED a second port, where buckets are named only by the host.

Requests to S3 go to an application of their own, because moto's application for all services searches moto's folders at
every request. Only requests to STS, which are posted to the root path, go to the application for all services.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from threading import Lock, Thread
from typing import Any

from moto.server import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server, run_simple

from support.bucket_policy import BucketPolicy, PolicedApplication

_HOST = "store.localhost"
_REFUSED = (
    b"<Error><Code>SecondLevelDomainForbidden</Code>"
    b"<Message>Please use virtual hosted style to access.</Message></Error>"
)


@dataclass
class HostedBuckets:
    """WSGI application that accepts S3 requests only with the bucket in the host name, not in the path."""

    application: Any

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        host = environ["HTTP_HOST"].partition(":")[0]
        bucket = host.removesuffix(f".{_HOST}")
        if bucket == host:
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            start_response("403 Forbidden", [("Content-Length", str(len(_REFUSED)))])
            return [_REFUSED]
        for name in ("PATH_INFO", "RAW_URI", "REQUEST_URI"):
            environ[name] = f"/{bucket}{environ[name]}"
        environ["HTTP_HOST"] = f"127.0.0.1:{environ['SERVER_PORT']}"
        answer: Iterable[bytes] = self.application(environ, start_response)
        return answer


def main(port: str, refusals: str, hosted: str | None = None) -> None:
    os.environ["MOTO_PORT"] = port
    s3, all_services = create_backend_app("s3"), DomainDispatcherApplication(create_backend_app)
    conditional_puts = Lock()  # moto itself lets two of them win, if they come at the same time

    def moto(environ: dict[str, Any], start_response: Any) -> Any:
        is_sts = (environ["REQUEST_METHOD"], environ["PATH_INFO"]) == ("POST", "/")
        with conditional_puts if "HTTP_IF_NONE_MATCH" in environ else nullcontext():
            return (all_services if is_sts else s3)(environ, start_response)

    policed = PolicedApplication(moto, BucketPolicy(Path(refusals)))
    if hosted is not None:
        server = make_server(
            "127.0.0.1", int(hosted), HostedBuckets(policed), threaded=True, request_handler=MotoRequestHandler
        )
        Thread(target=server.serve_forever, daemon=True).start()
    run_simple("127.0.0.1", int(port), policed, threaded=True, request_handler=MotoRequestHandler)


if __name__ == "__main__":
    main(*sys.argv[1:])
