"""moto's S3 server behind a policy: `python -m support.policed_moto PORT TOLD`; TOLD is a file of what it refused.

S3 has a server of its own: that of all services looks through moto's folders, at every request, for the one that is
meant. Only requests to STS go there, which are posted to the root.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from moto.server import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import run_simple

from support.bucket_policy import BucketPolicy, PolicedApplication


def main(port: str, refusals: str) -> None:
    os.environ["MOTO_PORT"] = port
    s3, all_services = create_backend_app("s3"), DomainDispatcherApplication(create_backend_app)

    def moto(environ: dict[str, Any], start_response: Any) -> Any:
        is_sts = (environ["REQUEST_METHOD"], environ["PATH_INFO"]) == ("POST", "/")
        return (all_services if is_sts else s3)(environ, start_response)

    policed = PolicedApplication(moto, BucketPolicy(Path(refusals)))
    run_simple("127.0.0.1", int(port), policed, threaded=True, request_handler=MotoRequestHandler)


if __name__ == "__main__":
    main(*sys.argv[1:])
