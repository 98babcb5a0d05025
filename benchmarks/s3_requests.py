"""CPU time of requests to S3 by Rescale's store, plain boto3 and, if installed, obstore, and CPU time of whole runs.

    python benchmarks/s3_requests.py [--requests 3000] [--megabytes 400] [--rounds 3] [--subtasks 1000]
                                     [--directory DIR]

CPU time is user and system time of all threads of this process; the server (versitygw) is another process. The
libraries take turns in every round, and the tables show medians without the first round. Whole runs do all steps in
this process, with source and target in S3: one source has many small files, the other has large ones.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any, Protocol
from unittest.mock import patch

from tabulate import tabulate

import tests_path  # noqa: F401
from big_savepoint import write_savepoint
from rescale.execution.steps import redistribute_operator_state, reshuffle_keyed_state, validate_coverage
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.plan.plan import Plan
from rescale.planning.prepare import prepare
from rescale.planning.request.request import make_request
from rescale.runstate.claim import claim
from rescale.runstate.publication import publish
from rescale.storage.s3.s3_client import client_for
from rescale.storage.s3.s3_requests import REQUESTS
from rescale.storage.s3.s3_store import S3Store
from support.s3 import S3Server, put_files, strict_s3_server

BUCKET = "requests"
SMALL, LARGE = 1 << 10, 4 << 20
"""Bytes of a small and of a large read, put or part of an upload."""

THREADS = 32
LISTED_OBJECTS = 1000

RESCALE, BOTO3, OBSTORE = "Rescale's store", "plain boto3", "obstore"


class Requests(Protocol):
    """Requests to S3 that each library sends in its own way."""

    def get(self, key: str, start: int, length: int) -> bytes: ...

    def put(self, key: str, data: bytes) -> object: ...

    def put_in_parts(self, key: str, parts: list[bytes]) -> object: ...

    def list(self, prefix: str) -> int: ...


class StoreRequests:
    """A `Store` of Rescale, which pins the version that it reads."""

    def __init__(self, store: S3Store) -> None:
        self.store = store
        self._pins: dict[str, Any] = {}

    def get(self, key: str, start: int, length: int) -> bytes:
        uri = f"s3://{BUCKET}/{key}"
        if uri not in self._pins:
            self._pins[uri] = self.store.stat(uri)
        return self.store.read(uri, start, length, self._pins[uri])

    def put(self, key: str, data: bytes) -> None:
        self.store.put(f"s3://{BUCKET}/{key}", data)

    def put_in_parts(self, key: str, parts: list[bytes]) -> None:
        uri = f"s3://{BUCKET}/{key}"
        upload_id = self.store.begin_parts(uri, "")
        receipts = [self.store.put_part(uri, upload_id, number, 0, part) for number, part in enumerate(parts, 1)]
        self.store.complete_parts(uri, upload_id, receipts, sum(map(len, parts)))

    def list(self, prefix: str) -> int:
        return len(self.store.list(f"s3://{BUCKET}/{prefix}"))


class ObstoreRequests:
    """obstore with default settings; its reads require the ETag of the first read."""

    def __init__(self, server: S3Server) -> None:
        settings = server.environment
        self._obstore: Any = import_module("obstore")
        self._store = import_module("obstore.store").S3Store(
            BUCKET,
            endpoint=server.endpoint,
            access_key_id=settings["AWS_ACCESS_KEY_ID"],
            secret_access_key=settings["AWS_SECRET_ACCESS_KEY"],
            region=settings["AWS_DEFAULT_REGION"],
            client_options={"allow_http": True},
        )
        self._etags: dict[str, str] = {}

    def get(self, key: str, start: int, length: int) -> bytes:
        if key not in self._etags:
            self._etags[key] = self._obstore.head(self._store, key)["e_tag"]
        options = {"range": (start, start + length), "if_match": self._etags[key]}
        return bytes(self._obstore.get(self._store, key, options=options).bytes())

    def put(self, key: str, data: bytes) -> None:
        self._obstore.put(self._store, key, data, use_multipart=False)

    def put_in_parts(self, key: str, parts: list[bytes]) -> None:
        self._obstore.put(self._store, key, iter(parts), use_multipart=True, chunk_size=len(parts[0]))

    def list(self, prefix: str) -> int:
        return sum(map(len, self._obstore.list(self._store, f"{prefix}/")))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=3000, help="number of small reads; puts are a tenth as many")
    parser.add_argument(
        "--megabytes", type=int, default=400, help="MB of large reads, and of the savepoint of large files"
    )
    parser.add_argument("--rounds", type=int, default=3, help="rounds, after a first one that does not count")
    parser.add_argument("--subtasks", type=int, default=1000, help="subtasks of the savepoint of small files")
    parser.add_argument("--directory", type=Path, help="where to work (default: the system's temporary directory)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.directory) as folder:
        home = Path(folder)
        (objects := home / "objects").mkdir()
        with strict_s3_server(objects) as server, patch.dict("os.environ", server.environment):
            server.create_bucket(BUCKET)
            stores = {RESCALE: S3Store(), BOTO3: S3Store(client_for())}
            compare_requests(server, stores, arguments.requests, arguments.megabytes, arguments.rounds)
            many, large = home / "many", home / "large"
            write_savepoint(
                many,
                7000 * 4 * arguments.subtasks,
                value_size=7000,
                parallelism=arguments.subtasks,
                max_parallelism=4 * arguments.subtasks,
            )
            write_savepoint(large, arguments.megabytes * 1_000_000)
            for what, source, parallelism in (
                ("many files", many, arguments.subtasks * 4 // 5),
                ("large files", large, 3),
            ):
                compare_runs(
                    what, put_files(source, f"s3://{BUCKET}/{source.name}"), stores, parallelism, arguments.rounds
                )
                shutil.rmtree(source)


def compare_requests(server: S3Server, stores: dict[str, S3Store], requests: int, megabytes: int, rounds: int) -> None:
    """Print the CPU milliseconds per request, sent one by one and in parallel threads."""
    ways: dict[str, Requests] = {name: StoreRequests(store) for name, store in stores.items()}
    if find_spec("obstore"):
        ways[OBSTORE] = ObstoreRequests(server)
    client = server.client()
    client.put_object(Bucket=BUCKET, Key="object", Body=bytes(16 * LARGE))
    for number in range(LISTED_OBJECTS):
        client.put_object(Bucket=BUCKET, Key=f"listed/{number}", Body=b"x")
    large = max(1, megabytes * 1_000_000 // LARGE)
    cases: dict[str, tuple[int, Callable[[Requests], object]]] = {
        "GET of 1 KiB": (requests, lambda way: [way.get("object", SMALL * i, SMALL) for i in range(requests)]),
        f"GET of 1 KiB, {THREADS} threads": (
            requests,
            lambda way: in_threads(lambda i: way.get("object", SMALL * i, SMALL), range(requests)),
        ),
        "GET of 4 MiB": (large, lambda way: [way.get("object", LARGE * (i % 16), LARGE) for i in range(large)]),
        f"GET of 4 MiB, {THREADS} threads": (
            large,
            lambda way: in_threads(lambda i: way.get("object", LARGE * (i % 16), LARGE), range(large)),
        ),
        "PUT of 1 KiB": (requests // 10, lambda way: [way.put("small", bytes(SMALL)) for _ in range(requests // 10)]),
        "8 parts of 8 MiB": (1, lambda way: way.put_in_parts("parts", [bytes(2 * LARGE)] * 8)),
        f"list of {LISTED_OBJECTS}": (5, lambda way: [way.list("listed") for _ in range(5)]),
    }
    rows = []
    for what, (number, action) in cases.items():
        costs = median_costs({name: partial(action, way) for name, way in ways.items()}, rounds)
        rows.append(
            (what, *(f"{1000 * cpu / number:.2f} ({1000 * seconds / number:.2f})" for cpu, seconds in costs.values()))
        )
    print(tabulate(rows, headers=("CPU ms a request (ms by the clock)", *ways)), end="\n\n", flush=True)


def in_threads(action: Callable[[int], object], numbers: Iterable[int]) -> None:
    with ThreadPoolExecutor(THREADS) as pool:
        for _ in pool.map(action, numbers):
            pass


def compare_runs(what: str, source: str, stores: dict[str, S3Store], parallelism: int, rounds: int) -> None:
    """Print the CPU seconds of a plan, and of a whole run with a rehash, for each library."""
    targets = (f"{source}-result-{number}" for number in count())

    def planned() -> Plan:
        return prepare(make_request(source, next(targets), [str(parallelism)], max_parallelism=["999"])).plan

    def run() -> None:
        plan = planned()
        claim(plan)
        for step in (reshuffle_keyed_state, redistribute_operator_state, validate_coverage):
            step(plan, InProcessTasks(2))
        publish(plan)

    def through(store: S3Store, action: Callable[[], object]) -> None:
        with patch.multiple("rescale.storage.store", _s3=lambda: store, _s3_of_source=lambda: store):
            action()

    rows = []
    for step, action in (("plan", planned), ("whole run", run)):
        costs = median_costs({name: partial(through, store, action) for name, store in stores.items()}, rounds)
        before = REQUESTS.by_operation
        through(stores[RESCALE], action)
        sent = REQUESTS.by_operation - before
        rows.append((step, *(f"{cpu:.2f} ({seconds:.2f})" for cpu, seconds in costs.values()), request_counts(sent)))
    print(tabulate(rows, headers=(f"{what}: CPU s (s by the clock)", *stores, "requests")), end="\n\n", flush=True)


def request_counts(requests: Counter[str]) -> str:
    return ", ".join(f"{number} {kind}" for kind, number in sorted(requests.items()))


def median_costs(actions: dict[str, Callable[[], object]], rounds: int) -> dict[str, tuple[float, float]]:
    """Run the actions in turn in every round; return the median CPU and clock seconds of each."""
    costs: dict[str, list[tuple[float, float]]] = {name: [] for name in actions}
    for _ in range(rounds + 1):
        for name, action in actions.items():
            start, cpu = time.perf_counter(), time.process_time()
            action()
            costs[name].append((time.process_time() - cpu, time.perf_counter() - start))
    return {name: (median(c for c, _ in each[1:]), median(s for _, s in each[1:])) for name, each in costs.items()}


if __name__ == "__main__":
    main()
