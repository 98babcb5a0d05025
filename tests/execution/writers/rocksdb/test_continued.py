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
    continued_plan = plan_continued(job.newest, str(tmp_path / "target"), str(base), ["3"], ["1000"])
    claim(continued_plan)
    return continued_plan


def stream_indices(plan: Plan) -> list[StreamIndex]:
    return [
        (operator_index, stream)
        for operator_index, operator in enumerate(plan.operators)
        for stream in range(len(operator.rekeyed_streams))
        if base_of(operator, stream) is not None
    ]


def base_files_by_name(plan: Plan, stream_index: StreamIndex) -> dict[str, Path]:
    """Return the SST files of the base's directory, by their names in it."""
    base = base_of(plan.operators[stream_index[0]], stream_index[1])
    assert base is not None
    file_by_name = {file.name: file for file in base.database.files if file.name.endswith(".sst")}
    assert all(file.extent.start == 0 for file in file_by_name.values())
    return {name: Path(plan.contents.uri(file.extent)) for name, file in file_by_name.items()}


def take_files(plan: Plan, inline: Sequence[StreamIndex] = ()) -> dict[StreamIndex, list[DirectoryFile]]:
    return take_over_base_files(plan, InProcessTasks(2), stream_indices(plan), inline)


def path_of(plan: Plan, file: DirectoryFile) -> Path:
    return Path(places_of(plan).stream(file.name_or_uri))


def test_files_get_a_second_name_under_their_names_in_the_base(plan: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    files = take_files(plan)
    sizes = [file.size for directory_files in files.values() for file in directory_files]
    assert f"take files of the base: {human_bytes(sum(sizes))} copied in " in capsys.readouterr().err
    assert len(files) == 3
    for stream_index, directory_files in files.items():
        base_paths = base_files_by_name(plan, stream_index)
        assert {file.local_name for file in directory_files} == base_paths.keys()
        for file in directory_files:
            assert path_of(plan, file).samefile(base_paths[file.local_name])
            assert (file.size, file.data) == (base_paths[file.local_name].stat().st_size, None)
    assert len({file.name_or_uri for directory_files in files.values() for file in directory_files}) == sum(
        map(len, files.values())
    )


def test_result_refers_to_files_in_the_directory_that_is_kept(plan: Plan) -> None:
    first, *_ = stream_indices(plan)
    directory = next(iter(base_files_by_name(plan, first).values())).parent
    for refers_to, is_referred in ((directory, True), (directory.parent / "another", False)):
        referring_plan = replace(plan, refers_to=str(refers_to))
        paths_before = list(Path(plan.target).glob("*"))
        for stream_index, directory_files in take_files(referring_plan, [first]).items():
            base_paths = base_files_by_name(plan, stream_index)
            assert [file.local_name for file in directory_files] == sorted(base_paths)
            for file in directory_files:
                assert (file.name_or_uri == str(base_paths[file.local_name])) is is_referred
                assert isinstance(file.stream, FileStream) is is_referred
        assert (list(Path(plan.target).glob("*")) == paths_before) is is_referred
        assert bool(referring_plan.base_files_referred_to) is is_referred
        assert referring_plan.refers


def test_files_are_in_one_order_whatever_task_ends_first(plan: Plan) -> None:
    """A task of an earlier try may write its handles after a later one: they must be equal."""

    class EndInReverse(InProcessTasks):
        def run(self, *arguments: Any, **options: Any) -> list[Any]:
            return super().run(*arguments, **options)[::-1]

    inline = stream_indices(plan)
    assert take_over_base_files(plan, EndInReverse(2), inline, inline) == take_files(plan, inline)


def test_inline_files_are_kept_in_memory_alone(plan: Plan) -> None:
    first, *others = stream_indices(plan)
    files = take_files(plan, [first])
    base_paths = base_files_by_name(plan, first)
    assert {file.local_name: file.data for file in files[first]} == {
        n: path.read_bytes() for n, path in base_paths.items()
    }
    assert not any(path_of(plan, file).exists() for file in files[first])
    assert all(file.data is None for stream_index in others for file in files[stream_index])


def test_tasks_copy_what_the_store_gives_no_second_name(plan: Plan) -> None:
    with patch("rescale.storage.files.local_store.LocalStore.keep", side_effect=CopyRefused("no links")):
        files = take_files(plan)
    for stream_index, base_paths in ((stream_index, base_files_by_name(plan, stream_index)) for stream_index in files):
        assert {file.local_name for file in files[stream_index]} == base_paths.keys()
        for file in files[stream_index]:
            assert not path_of(plan, file).samefile(base_paths[file.local_name])
            assert path_of(plan, file).read_bytes() == base_paths[file.local_name].read_bytes()


@pytest.mark.parametrize("inline", [False, True])
def test_lost_file_of_the_base_is_an_error_with_the_operator(plan: Plan, inline: bool) -> None:
    stream_index = stream_indices(plan)[0]
    next(iter(base_files_by_name(plan, stream_index).values())).unlink()
    with pytest.raises(RescaleError) as caught:
        take_files(plan, [stream_index] if inline else [])
    assert caught.value.operator == plan.operators[stream_index[0]].label


def test_manifest_of_the_base_lists_its_files(plan: Plan) -> None:
    for operator_index, stream in stream_indices(plan):
        base = base_of(plan.operators[operator_index], stream)
        assert base is not None
        assert base_manifest(plan, base).files.keys() == base_files_by_name(plan, (operator_index, stream)).keys()


def test_every_stream_continues_a_directory_of_its_own(plan: Plan) -> None:
    (operator,) = (operator for operator in plan.operators if operator.rekeying is not None)
    assert operator.rekeying is not None
    assert tuple(base_of(operator, stream) for stream in range(3)) == operator.rekeying.bases
    assert len({base.database.files for base in operator.rekeying.bases}) == 3


def test_plan_of_its_own_continues_no_directory(plan: Plan, tmp_path: Path) -> None:
    separate_plan = plan_rescale(plan.source, str(tmp_path / "alone"), ["3"], max_parallelism=["1000"])
    assert stream_indices(separate_plan) == []
    assert take_files(separate_plan) == {}
