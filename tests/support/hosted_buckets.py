"""An S3 server that refuses every request with the bucket in its path, as Alibaba OSS and Tencent COS do."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rescale.storage import store as stores
from rescale.storage.s3.s3_store import S3Store
from support.resolver.sitecustomize import getaddrinfo
from support.s3 import S3Server, s3_server

RESOLVER = Path(__file__).parent / "resolver"
_HOST = "store.localhost"


@contextmanager
def hosted_buckets(patch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    """Serve buckets by host names, for this process and its children.

    The server's `endpoint` also accepts buckets in paths, for the preparations and checks of tests.
    """
    with s3_server(hosted=True) as server:
        patch.setattr(socket, "getaddrinfo", getaddrinfo)
        patch.setattr(sys, "path", [str(RESOLVER), *sys.path])
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        for name, value in {**server.environment, "AWS_ENDPOINT_URL": server.hosted_endpoint}.items():
            patch.setenv(name, value)
        patch.setattr(stores, "_s3", S3Store)
        yield server
