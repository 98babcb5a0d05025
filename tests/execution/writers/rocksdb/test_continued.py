"""Files of an earlier result in the directories that continue it; `tests/cli/test_base.py` has whole runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from rescale.execution.tasks.in_process import InProcessTasks
from rescale.execution.writers.new_handles import DirectoryFile
from rescale.execution.writers.rocksdb.continued import StreamIndex, base_manifest, base_of, take_over_base_files
from rescale.flink.metadata.handles import FileStream
from rescale.plan.plan import Plan
from rescale.runstate.claim import claim
from rescale.runstate.places import places_of
from rescale.storage.contract import CopyRefused
from rescale.text.errors import RescaleError
from rescale.text.units import human_bytes
from support.checkpoints import checkpoints_in
from support.pipeline import execute_without_spark, plan_continued, plan_rescale


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    """The claimed plan of a checkpoint that continues the result of the one before, all of whose state is in files."""
    monkeypatch.setattr("rescale.planning.streams.inline.INLINE_LIMIT", 0)
    job = checkpoints_in("2-rocksdb-incremental", str(tmp_path / "job"), tmp_path / "scratch")
    base = tmp_path / "base"
    execute_without_spark(plan_rescale(job.newest, str(base), ["3"], max_parallelism=["1000"]))
    job.copy_newest(4)
    continued = plan_continued(job.newest, str(tmp_path / "target"), str(base), ["3"], ["1000"])
    claim(continued)
    return continued


def places(plan: Plan) -> list[StreamIndex]:
    return [
        (number, stream)
        for number, operator in enumerate(plan.operators)
        for stream in range(len(operator.rekeyed_streams))
        if base_of(operator, stream) is not None
    ]


def stored_in_base(plan: Plan, place: StreamIndex) -> dict[str, Path]:
    """Return the SST files of the base's directory, by their names in it."""
    base = base_of(plan.operators[place[0]], place[1])
    assert base is not None
    files = {file.name: file for file in base.database.files if file.name.endswith(".sst")}
    assert all(file.extent.start == 0 for file in files.values())
    return {name: Path(plan.contents.uri(file.extent)) for name, file in files.items()}


def taken_files(plan: Plan, inline: Sequence[StreamIndex] = ()) -> dict[StreamIndex, list[DirectoryFile]]:
    return take_over_base_files(plan, InProcessTasks(2), places(plan), inline)


def path_of(plan: Plan, file: DirectoryFile) -> Path:
    return Path(places_of(plan).stream(file.name_or_uri))


def test_files_get_a_second_name_under_their_names_in_the_base(plan: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    files = taken_files(plan)
    sizes = [file.size for of_directory in files.values() for file in of_directory]
    assert f"take files of the base: {human_bytes(sum(sizes))} copied in " in capsys.readouterr().err
    assert len(files) == 3
    for place, of_directory in files.items():
        old = stored_in_base(plan, place)
        assert {file.local_name for file in of_directory} == old.keys()
        for file in of_directory:
            assert path_of(plan, file).samefile(old[file.local_name])
            assert (file.size, file.data) == (old[file.local_name].stat().st_size, None)
    assert len({file.name_or_uri for of_directory in files.values() for file in of_directory}) == sum(
        map(len, files.values())
    )


def test_result_refers_to_files_in_the_directory_that_is_kept(plan: Plan) -> None:
    first, *_ = places(plan)
    directory = next(iter(stored_in_base(plan, first).values())).parent
    for refers_to, referred in ((directory, True), (directory.parent / "another", False)):
        other = replace(plan, refers_to=str(refers_to))
        claimed = list(Path(plan.target).glob("*"))
        for place, of_directory in taken_files(other, [first]).items():
            old = stored_in_base(plan, place)
            assert [file.local_name for file in of_directory] == sorted(old)
            for file in of_directory:
                assert (file.name_or_uri == str(old[file.local_name])) is referred
                assert isinstance(file.stream, FileStream) is referred
        assert (list(Path(plan.target).glob("*")) == claimed) is referred
        assert bool(other.base_files_referred_to) is referred
        assert other.refers


def test_files_are_in_one_order_whatever_task_ends_first(plan: Plan) -> None:
    """A task of an earlier try may write its handles after a later one: they must be equal."""

    class EndInReverse(InProcessTasks):
        def run(self, *arguments: Any, **options: Any) -> list[Any]:
            return super().run(*arguments, **options)[::-1]

    inline = places(plan)
    assert take_over_base_files(plan, EndInReverse(2), inline, inline) == taken_files(plan, inline)


def test_inline_files_are_kept_in_memory_alone(plan: Plan) -> None:
    first, *others = places(plan)
    files = taken_files(plan, [first])
    old = stored_in_base(plan, first)
    assert {file.local_name: file.data for file in files[first]} == {n: path.read_bytes() for n, path in old.items()}
    assert not any(path_of(plan, file).exists() for file in files[first])
    assert all(file.data is None for place in others for file in files[place])


def test_tasks_copy_what_the_store_gives_no_second_name(plan: Plan) -> None:
    with patch("rescale.storage.files.local_store.LocalStore.keep", side_effect=CopyRefused("no links")):
        files = taken_files(plan)
    for place, old in ((place, stored_in_base(plan, place)) for place in files):
        assert {file.local_name for file in files[place]} == old.keys()
        for file in files[place]:
            assert not path_of(plan, file).samefile(old[file.local_name])
            assert path_of(plan, file).read_bytes() == old[file.local_name].read_bytes()


@pytest.mark.parametrize("inline", [False, True])
def test_lost_file_of_the_base_is_an_error_with_the_operator(plan: Plan, inline: bool) -> None:
    place = places(plan)[0]
    next(iter(stored_in_base(plan, place).values())).unlink()
    with pytest.raises(RescaleError) as caught:
        taken_files(plan, [place] if inline else [])
    assert caught.value.operator == plan.operators[place[0]].label


def test_manifest_of_the_base_lists_its_files(plan: Plan) -> None:
    for number, stream in places(plan):
        base = base_of(plan.operators[number], stream)
        assert base is not None
        assert base_manifest(plan, base).files.keys() == stored_in_base(plan, (number, stream)).keys()


def test_every_stream_continues_a_directory_of_its_own(plan: Plan) -> None:
    (operator,) = (operator for operator in plan.operators if operator.rekeying is not None)
    assert operator.rekeying is not None
    assert tuple(base_of(operator, stream) for stream in range(3)) == operator.rekeying.bases
    assert len({base.database.files for base in operator.rekeying.bases}) == 3


def test_plan_of_its_own_continues_no_directory(plan: Plan, tmp_path: Path) -> None:
    alone = plan_rescale(plan.source, str(tmp_path / "alone"), ["3"], max_parallelism=["1000"])
    assert places(alone) == []
    assert taken_files(alone) == {}
