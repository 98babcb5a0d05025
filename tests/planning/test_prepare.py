"""Refusal of results in RocksDB directories that the job, with its own RocksDB options, could not open."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest

from rescale.planning.prepare import prepare
from rescale.planning.request.request import Request, make_request
from rescale.planning.request.result_files import Files, Format
from rescale.rocksdb.database_layout import LEVEL_COUNT
from rescale.rocksdb.options_file import refuse_few_levels
from rescale.snapshot.databases.live_tables import check_options_of
from rescale.text.errors import UnsupportedError
from support import edited
from support.snapshots import opened

FIFO_OPTION, FEW_LEVELS_OPTION = (b"compaction_style", b"kCompactionStyleFIFO"), (b"num_levels", b"6")


def set_option(directory: Path, option: tuple[bytes, bytes]) -> Path:
    """Set an option of all column families in the OPTIONS files of a snapshot."""
    name, value = option
    assert edited.edit_files(
        directory, "OPTIONS", lambda content: re.sub(rb"(?m)^(\s*%s)=.*$" % name, rb"\1=%s" % value, content)
    )
    return directory


def rewriting_request(source: Path, result_format: Format = Format.KEEP) -> Request:
    """Return a request for rows under new key groups."""
    target = str(source.parent / "target")
    return make_request(str(source), target, ["3"], max_parallelism=["1000"], format=result_format)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return edited.relocated("2-rocksdb-native", tmp_path / "source")


@pytest.mark.parametrize("option", [FIFO_OPTION, FEW_LEVELS_OPTION], ids=["fifo", "few"])
def test_rewritten_rows_are_refused_if_rocksdb_lacks_their_level(source: Path, option: tuple[bytes, bytes]) -> None:
    set_option(source, option)
    with pytest.raises(UnsupportedError, match="too few levels") as caught:
        prepare(rewriting_request(source))
    assert caught.value.operator
    assert caught.value.found == b"=".join(option).decode()
    assert "canonical result" in str(caught.value.advice)
    assert prepare(rewriting_request(source, Format.CANONICAL)).plan.operators


@pytest.mark.parametrize(
    ("option", "is_refused"), [(FIFO_OPTION, True), (FEW_LEVELS_OPTION, False)], ids=["fifo", "few"]
)
def test_compacted_files_need_a_level_below_0(source: Path, option: tuple[bytes, bytes], is_refused: bool) -> None:
    set_option(source, option)
    target = str(source.parent / "target")
    request = make_request(str(source), target, ["3"])
    if is_refused:
        with pytest.raises(UnsupportedError, match="too few levels"):
            prepare(request)
    else:
        assert any(operator.compacted for operator in prepare(request).plan.operators)
    referring_plan = prepare(make_request(str(source), target, ["3"], files=Files.REFER)).plan
    assert any(operator.databases for operator in referring_plan.operators)


@pytest.mark.parametrize("name", ["2-rocksdb-native", "2-changelog-over-rocksdb"])
def test_options_of_directories_and_of_those_below_changelogs_are_checked(name: str) -> None:
    snapshot = opened(name)
    (operator,) = (operator for operator in snapshot.operators if operator.databases or operator.changelogs)
    check_options_of(snapshot, operator, partial(refuse_few_levels, needed_levels=LEVEL_COUNT))
    with pytest.raises(UnsupportedError, match="too few levels"):
        check_options_of(snapshot, operator, partial(refuse_few_levels, needed_levels=LEVEL_COUNT + 1))
