"""A round of a live rescale: two checkpoints of a job in RocksDB, and the base, which is the result of the earlier one.

The later checkpoint is the source of a history. It shares SST files with the earlier one, unless the job was started
again in between and has uploaded all files again. The base is made once, without faults. Checkpoints and base are not
damaged, because a damaged round is refused. Some results refer to files of the base.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random

from rescale.flink.metadata.checkpoint_metadata import Metadata, OperatorState, Subtask, SubtaskState
from rescale.flink.metadata.handles import FileStream, IncrementalHandle, RelativeFileStream, RocksdbFile, Stream
from rescale.flink.metadata.properties import savepoint_properties
from rescale.flink.metadata.writer import write_metadata
from rescale.flink.operator_id import operator_id_of_uid
from rescale.plan.proof import Proof
from rescale.planning.request.result_files import Files
from simulation.bucket import Bucket
from simulation.clock import Clock
from simulation.flinks_rules import key_groups_of_subtask
from simulation.installed import Sizes, installed_for_history
from simulation.native_databases import SMALL_LEVELS_OPTIONS, Rows, read_reproducible, scratch_folder
from simulation.native_sources import KEYED_STATES, draw_rows, group_of, header_of, incremental_handle
from simulation.rows import Kind
from simulation.run import BASE, EARLIER, SOURCE, Steps, Wish
from simulation.script import STAGES, Script
from simulation.sources import Source, elements_operator
from simulation.toxics import Client, Toxics
from support.rocksdb_writer import Writer, written

FIRST_ROUND_SEED = 4_000_000
"""First seed of histories of a round."""

_JOB_COUNT = 8
"""Number of jobs, each with two checkpoints and a base."""

_MAX_PARALLELISM_PAIRS = ((4, 9), (6, 8), (8, 6), (8, 130), (130, 8), (200, 256))
"""Max parallelisms before and after."""

_COPIED_AHEAD_SHARE = 0.3
"""Share of histories in which a follower copies files of the base into the target."""

_HIGHEST_FAULT_RATE = 0.005
"""Highest probability of a fault per request; a round makes many requests, because it opens four snapshots."""


def script_of_round(script: Script, seed: int) -> Script:
    """Return the script of a round, with the faults of `script` except damage to the source and lasting conditions."""
    random = Random(f"round {seed}")
    source, wish = job_of(random.randrange(_JOB_COUNT))
    damage = {kind: stage for kind, stage in script.damage.items() if not kind.startswith("source")}
    beside = {who: stage for who, stage in script.beside.items() if who in ("twin", "rival", "discard")}
    ahead_random = Random(f"copied ahead in round {seed}")
    if ahead_random.random() < _COPIED_AHEAD_SHARE:
        beside["preparer"] = ahead_random.choice(("plan", "plan", *STAGES))
    return replace(
        script,
        source=source,
        wish=wish,
        rates={toxic: min(rate, _HIGHEST_FAULT_RATE) for toxic, rate in script.rates.items()},
        other_wish=replace(wish, base="", proof=Proof.RECORDS, files=Files.COPY),
        damage=damage,
        beside=beside,
        weather=None,
        store=replace(script.store, has_checksums=False, is_trusted=False),
    )


@cache
def job_of(number: int) -> tuple[Source, Wish]:
    """Return the later checkpoint of a job, and the wish for its round; call it within `with installed():`."""
    random = Random(f"job {number}")
    old_maximum, new_maximum = random.choice(_MAX_PARALLELISM_PAIRS)
    earlier, later = _checkpoints(random, old_maximum, f"job {number}")
    wish = Wish(str(random.randint(1, 4)), str(new_maximum))
    earlier_objects, source_objects = (
        {f"{uri.rpartition('/')[2]}/{name}": data for name, data in objects.items()}
        for uri, objects in ((EARLIER, earlier), (SOURCE, later))
    )
    bucket = Bucket(Clock())
    for key, data in (earlier_objects | source_objects).items():
        bucket.put(key, data)
    client = Client(bucket, Toxics(Random(0), {}, Counter(), []), None)
    with installed_for_history(client, Random(0), Sizes(1 << 20, 1 << 20, 150, 1 << 26, 10), Clock()):
        Steps(replace(wish, target=BASE, source=EARLIER), Random(0), Random(0)).run_all()
    base = {key: stored.data for key, stored in bucket.objects.items() if key.startswith("base")}
    uids = ("keyed", "elements")
    job = Source(f"a round of job {number}", later, (), (), Kind.ROCKSDB, uids, other_objects=earlier_objects | base)
    files = Random(f"files of job {number}").choice((Files.COPY, Files.REFER))
    return job, replace(wish, base=BASE, proof=Proof.CHANGES, files=files)


def make_bases() -> None:
    """Make the bases of all jobs now; call it within `with installed():`."""
    for number in range(_JOB_COUNT):
        job_of(number)


def _checkpoints(random: Random, maximum: int, name: str) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """Return the objects of two checkpoints of a job with this max parallelism."""
    earlier: dict[str, bytes] = {}
    later: dict[str, bytes] = {}
    parallelism, states = random.randint(1, 3), list(KEYED_STATES)[: random.randint(2, 3)]
    rows, other_rows = (draw_rows(random, states, maximum) for _ in range(2))
    subtasks: tuple[list[Subtask], list[Subtask]] = ([], [])
    is_uploaded_again = Random(f"uploads of {name}").random() < 0.5
    for subtask in range(parallelism):
        own_groups = key_groups_of_subtask(maximum, parallelism, subtask)
        first_rows, changed_rows = (
            {
                state: {k: v for k, v in rows_of_all_subtasks[state].items() if group_of(k, maximum) in own_groups}
                for state in states
            }
            for rows_of_all_subtasks in (rows, other_rows)
        )
        earlier_files, later_files = _files_before_and_after(random, first_rows, changed_rows, f"{name} {subtask}")
        shared = {
            file for file, data in earlier_files.items() if later_files.get(file) == data and file.endswith(".sst")
        }
        earlier_streams, later_streams = (
            _store_files(objects, subtask, files) for objects, files in ((earlier, earlier_files), (later, later_files))
        )
        for file in () if is_uploaded_again else shared:
            del earlier[_stored_name(subtask, file)]
            earlier_streams[file] = FileStream(f"{SOURCE}/{_stored_name(subtask, file)}", len(earlier_files[file]))
        for i, (objects, streams) in enumerate(((earlier, earlier_streams), (later, later_streams))):
            objects[f"meta-{subtask}"] = header_of(states)
            handle = _handle(
                subtask, own_groups, RelativeFileStream(f"meta-{subtask}", len(header_of(states))), streams
            )
            subtasks[i].append(Subtask(subtask, False, SubtaskState(managed_keyed=handle)))
    for i, objects in enumerate((earlier, later)):
        operators = (
            OperatorState(operator_id_of_uid("keyed"), "", "", parallelism, maximum, None, tuple(subtasks[i])),
            elements_operator(random, objects, parallelism, maximum),
        )
        objects["_metadata"] = write_metadata(
            Metadata(4, 6 + i, (), operators, savepoint_properties(is_canonical=False))
        )
    return earlier, later


def _stored_name(subtask: int, file: str) -> str:
    return f"db-{subtask}-{file}"


def _store_files(objects: dict[str, bytes], subtask: int, files: Mapping[str, bytes]) -> dict[str, Stream]:
    """Store the files of a database, and return their streams by their names in it."""
    objects |= {_stored_name(subtask, file): data for file, data in files.items()}
    return {file: RelativeFileStream(_stored_name(subtask, file), len(data)) for file, data in files.items()}


def _handle(subtask: int, own_groups: Sequence[int], meta: Stream, streams: Mapping[str, Stream]) -> IncrementalHandle:
    files = [RocksdbFile(name, stream) for name, stream in sorted(streams.items())]
    shared = [file for file in files if file.name.endswith(".sst")]
    return incremental_handle(subtask, own_groups, meta, shared, [file for file in files if file not in shared])


def _files_before_and_after(
    random: Random, rows: Rows, other_rows: Rows, name: str
) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """Return the files of a database that holds `rows`, and its files after changes, some of which put `other_rows`."""
    with (
        tempfile.TemporaryDirectory(dir=scratch_folder()) as folder,
        written(Path(folder, "db"), list(rows), SMALL_LEVELS_OPTIONS) as db,
    ):
        for state in rows:
            for key, value in rows[state].items():
                _put_value(db, state, key, value)
                if random.random() < 0.1:
                    db.flush()
            if random.random() < 0.5:
                db.flush()
                db.compact(state)
        db.flush()
        earlier_files = read_reproducible(db, Path(folder), "earlier", name)
        for state in rows:
            for key in rows[state]:
                _change_value(random, db, state, key)
            for key, value in other_rows[state].items():
                if random.random() < 0.3:
                    _put_value(db, state, key, value)
            if random.random() < 0.3:
                db.flush()
                db.compact(state)
        db.flush()
        return earlier_files, read_reproducible(db, Path(folder), "later", name)


def _put_value(db: Writer, state: str, key: bytes, value: bytes) -> None:
    """Put a value, or the elements of a list."""
    if KEYED_STATES[state] != "LIST":
        db.put(state, key, value)
        return
    db.delete(state, key)
    for element in value.split(b","):
        db.add(state, key, element)


def _change_value(random: Random, db: Writer, state: str, key: bytes) -> None:
    """Delete or replace the value of a key, add an element to a list, or, mostly, do nothing."""
    draw = random.random()
    if draw < 0.1:
        db.delete(state, key)
    elif draw < 0.25:
        _put_value(db, state, key, b"replaced")
    elif draw < 0.35 and KEYED_STATES[state] == "LIST":
        db.add(state, key, b"one more")
