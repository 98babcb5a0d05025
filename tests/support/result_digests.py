"""Digests of the results of all committed snapshots: `PYTHONPATH=jobs:tests python -m support.result_digests > lines`.

Two checkouts that print the same lines write the same results. Run this module before and after a change that should
leave results as they are. Each line is a JSON list: the snapshot, the request, a file of the result, and its SHA-256;
for a refusal, the class of the error and its exit code. The last lines are the key paths of all inspections, plans and
certificates.

Each snapshot is copied to a fixed place and gets a fixed modification time, because a plan pins both. File names
contain the plan's digest, so every plan gets a digest that follows from the snapshot and the request alone.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from rescale.report.pages.inspection import inspection
from rescale.runstate.certificate import read_certificate
from rescale.text.errors import RescaleError
from support import snapshots
from support.pipeline import execute_without_spark, plan_rescale

REQUESTS: dict[str, dict[str, Any]] = {
    "same": {},
    "parallelism 1": {"parallelism": ["1"]},
    "parallelism 3": {"parallelism": ["3"]},
    "max parallelism 64": {"max_parallelism": ["64"]},
    "max parallelism 600": {"parallelism": ["3"], "max_parallelism": ["600"]},
    "canonical": {"format": "canonical"},
    "rocksdb": {"format": "rocksdb"},
    "refer": {"parallelism": ["3"], "files": "refer"},
}

_PLACE = Path(tempfile.gettempdir()) / "rescale-result-digests"
_TIME = 1_700_000_000


def main() -> int:
    keys: dict[str, set[str]] = defaultdict(set)
    for name in sys.argv[1:] or snapshots.names():
        source = _copied(name)
        keys["inspection"] |= _key_paths(msgspec.to_builtins(inspection(snapshots.opened(name))))
        for request in REQUESTS:
            for line in _lines(name, source, request, keys):
                print(json.dumps([name, request, *line]), flush=True)
    for document, paths in keys.items():
        for path in sorted(paths):
            print(json.dumps([document, path]))
    shutil.rmtree(_PLACE)
    return 0


def _lines(name: str, source: Path, request: str, keys: dict[str, set[str]]) -> Iterator[tuple[str, ...]]:
    """Yield the lines of a request for a copied snapshot; add the key paths of its documents to `keys`."""
    target = _PLACE / "target"
    for folder in (target, Path(f"{target}.rescale")):
        shutil.rmtree(folder, ignore_errors=True)
    try:
        plan = plan_rescale(str(source), str(target), **REQUESTS[request])
        vars(plan)["digest"] = hashlib.sha256(f"{name} {request}".encode()).hexdigest()
        execute_without_spark(plan, cores=1)
    except RescaleError as error:
        yield "refused", type(error).__name__, str(error.exit_code)
        return
    keys["plan"] |= _key_paths(msgspec.to_builtins(plan))
    keys["certificate"] |= _key_paths(msgspec.to_builtins(read_certificate(str(target))))
    for path in sorted(target.iterdir()):
        yield path.name, hashlib.sha256(path.read_bytes()).hexdigest()


def _copied(name: str) -> Path:
    """Copy a snapshot to its place, with one modification time for all files, and return its directory."""
    folder, copy = snapshots.FIXTURES / name, _PLACE / "source" / name
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy)
    for path in copy.rglob("*"):
        os.utime(path, (_TIME, _TIME))
    return copy / Path(snapshots.directory(name)).relative_to(folder)


def _key_paths(document: Any, path: str = "") -> set[str]:
    """Return the paths of all keys in a document. All elements of a list have the same path."""
    if isinstance(document, dict):
        return set().union(*(_key_paths(value, f"{path}.{key}") for key, value in document.items()))
    if isinstance(document, list | tuple):
        return set().union(*(_key_paths(value, f"{path}[]") for value in document))
    return {path}


if __name__ == "__main__":
    sys.exit(main())
