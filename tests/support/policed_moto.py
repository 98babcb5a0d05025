"""moto's S3 server behind a policy: `python -m support.policed_moto PORT TOLD`; TOLD is a file of what it refused."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from moto.server import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import run_simple

from support.bucket_policy import BucketPolicy, PolicedApplication


def main(port: str, told: str) -> None:
    os.environ["MOTO_PORT"] = port
    moto = DomainDispatcherApplication(create_backend_app)
    policed = PolicedApplication(moto, BucketPolicy(Path(told)))
    run_simple("127.0.0.1", int(port), policed, threaded=True, request_handler=MotoRequestHandler)


if __name__ == "__main__":
    main(*sys.argv[1:])
