"""Each file of the source that a result refers to is the expected one, pinned and unchanged."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rescale.execution.steps import validate_coverage
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.flink.metadata.handles import FileStream
from rescale.plan.proof import Proof
from rescale.runstate.places import places_of
from rescale.runstate.publication import publish
from rescale.text.errors import IntegrityError, SnapshotError
from support.edited import edit, with_streams
from support.spoilt import SpoiltResult, flip, own_file, publish_result


def test_references_to_exchanged_files_are_found(tmp_path: Path) -> None:
    """Two files of the same size are exchanged."""
    plan = publish_result(tmp_path, "refer", "2-rocksdb-heap-timers")
    spoilt = SpoiltResult(Path(plan.source), Path(plan.target))
    (Path(places_of(plan).certificate)).unlink()
    paths_by_size: dict[int, set[str]] = {}

    def record_path(file: Any) -> Any:
        if isinstance(file, FileStream):
            paths_by_size.setdefault(file.size, set()).add(file.path)
        return file

    edit(spoilt.target, lambda metadata: with_streams(metadata, record_path))
    first, other, *_ = max(paths_by_size.values(), key=len)
    swap = {first: other, other: first}
    edit(
        spoilt.target,
        lambda metadata: with_streams(
            metadata,
            lambda stream: (
                replace(stream, path=swap[stream.path])
                if isinstance(stream, FileStream) and stream.path in swap
                else stream
            ),
        ),
    )
    for proof in (Proof.RECORDS, Proof.FILES):
        with pytest.raises(IntegrityError):
            spoilt.validate(proof)


def test_reference_to_an_unpinned_copy_in_the_source_directory_is_found(tmp_path: Path) -> None:
    """The copy has the same bytes, but no plan has pinned it, so nothing ensures that it stays."""
    plan = publish_result(tmp_path, "refer")
    spoilt = SpoiltResult(Path(plan.source), Path(plan.target))
    (Path(places_of(plan).certificate)).unlink()
    (referred_file,) = {spoilt.path(0, own_file(spoilt).name)}
    copy = referred_file.with_name("a-copy.sst")
    copy.write_bytes(referred_file.read_bytes())

    def refer_to_copy(stream: Any) -> Any:
        if isinstance(stream, FileStream) and stream.path.endswith(str(referred_file)):
            return replace(stream, path=stream.path.replace(str(referred_file), str(copy)))
        return stream

    edit(spoilt.target, lambda metadata: with_streams(metadata, refer_to_copy))
    for proof in (Proof.RECORDS, Proof.FILES):
        with pytest.raises(IntegrityError, match="does not belong to the source") as caught:
            spoilt.validate(proof)
        assert caught.value.path == str(copy)


def test_changed_file_that_the_result_refers_to_is_found(tmp_path: Path) -> None:
    """After validation this is an integrity error of the result; before validation, a changed source."""
    plan = publish_result(tmp_path, "refer")
    spoilt = SpoiltResult(Path(plan.source), Path(plan.target))
    (referred_file,) = {spoilt.path(0, own_file(spoilt).name)}
    assert referred_file.parent == spoilt.source
    for proof in (Proof.RECORDS, Proof.FILES):
        assert spoilt.validate(proof).proof == proof
    flip(referred_file, 20)
    os.utime(referred_file, ns=(1, 1))
    for proof in (Proof.RECORDS, Proof.FILES):
        with pytest.raises(
            IntegrityError, match="that the result refers to is gone, or is not the certified version"
        ) as caught:
            spoilt.validate(proof)
        assert caught.value.path == str(referred_file)
    with pytest.raises(IntegrityError, match="that the result refers to is gone, or is not the certified version"):
        publish(plan)
    with pytest.raises(SnapshotError, match="changed since the plan was made") as changed:
        validate_coverage(plan, InProcessTasks(), Proof.FILES)
    assert changed.value.path == str(referred_file)
