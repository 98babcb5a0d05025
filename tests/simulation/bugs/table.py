"""Planted bugs, and the search for a history in which a bug breaks a promise."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from simulation.bugs import (
    in_changelogs,
    in_databases,
    in_dealing,
    in_drops,
    in_moving,
    in_rounds,
    in_runstate,
    in_storage,
    in_stores,
    in_validation,
    in_weather,
)
from simulation.bugs.planting import Bug
from simulation.history import play
from simulation.reader_cache import clear_caches
from simulation.rounds import FIRST_ROUND_SEED, make_bases
from simulation.script import has_native_state

COVERED_ELSEWHERE = {
    "put if absent: the condition is not sent": "claim checks the target again; tests/storage finds it",
    "put if absent: looks first, then puts": "claim checks the target again",
    "put if absent: its own bytes count as foreign": "callers read the object again; tests/storage finds it",
    "claim: the condition is not sent": "claim checks the target again; tests/storage finds it",
    "a read does not ask for the pinned version": "versions are checked again before the certificate",
    "any target with a `_metadata` counts as published": "publish itself checks the claim and the certificate",
    "publish: the certificate of another plan is accepted": "it names its candidate, whose digest is compared",
    "validation: other fields of `_metadata` are not compared": "only with another bug; execution/compare finds it",
    "validation: values are not compared by `check_equal`": "only with another bug; execution/compare finds it",
    "certificate: files are not looked at again": "twins write equal files; test_publication.py finds it",
    "publish: no mark before `_metadata`": "only with a job that owns a killed run's result; tests/runstate finds it",
    "discard: files put after the claim stay": "two kills at one place show it; test_removal.py finds it",
    "discard: files of state stay": "discard also looks for the names of all planned files",
    "refer: any file may be referred to": "shows only with another bug; test_files_proof.py finds it",
    "proof by files: range tombstones are not checked": "shows only with another bug; test_files_proof.py finds it",
    "a file that a listing misses counts as gone": "1 history in a million shows it; test_written_handles.py finds it",
    "publish: checks the claim before a discard": "1 history in a million shows it; test_publication.py finds it",
    "delete: a missing object is an error": "only two discards at once delete a missing object",
}
"""Bugs that no history has shown, with the reason, or the test that finds them."""

KNOWN_SEEDS = {
    "publish: needs no certificate": 23,
    "publish: open uploads stay": 25,
    "refer: to other files of the source": 380,
    "refer: publish checks its own files only": 4414,
    "refer: the certificate names own files only": 4414,
    "proof by files: copies are not compared": 8995,
    "proof by files: no range tombstones, and no check": 116,
    "MANIFEST: misses a file": 16,
    "MANIFEST: misses a state": 16,
    "MANIFEST: sizes are one too large": 16,
    "MANIFEST: smallest keys are too large": 16,
    "MANIFEST: largest keys are too small": 16,
    "MANIFEST: all in one level": 50,
    "MANIFEST: the last sequence number is too low": 50,
    "MANIFEST: the next number is in use": 50,
    "databases: dirty directories are joined": 50,
    "databases: no range tombstones hide foreign rows": 50,
    "databases: range tombstones are too old": 50,
    "databases: range tombstones hide a key group too many": 126,
    "MANIFEST: sequence numbers backwards": 129,
    "MANIFEST: epochs backwards": 129,
    "databases: sources are equally old": 129,
    "databases: SST files change places": 129,
    "databases: SST files of another subtask": 129,
    "databases: states of one source alone": 116,
    "compaction: nothing is rewritten": 50,
    "rows: a file is lost": 16,
    "rows: in another order": 16,
    "rows: states change places": 112,
    "handle: one backend for all": 16,
    "handle: an SST file is left out": 16,
    "handle: SST files have each other's names": 50,
    "publish: documents are read only once": 107,
    "claim: files that RocksDB named count as foreign": 225,
    "errors: a damaged source is transient": 5,
    "inline: the last byte is lost": 6,
    "a store that does not answer counts as empty": 720,
    "copy: only the first chunk": 6,
    "pieces: neighbours in any file are joined": 7,
    "copy: lengths of key groups backwards": 7,
    "sink: a part is written twice": 10,
    "validation: everything is found equal": 11,
    "validation: headers of key groups are not compared": 11,
    "key groups: the planner alone has floors": 12,
    "parts: staged parts are not joined": 13,
    "a listing ends with its first page": 40,
    "abort: one upload of several": 47,
    "validation: key groups by their first bytes": 169,
    "validation: the source is read twice": 169,
    "the candidate of an earlier try stays": 369,
    "a target that another plan holds counts as own": 41,
    "every transition is allowed in every state": 41,
    "errors: a taken target is transient": 46,
    "a stat forgets the ETag": 48,
    "publish: no file is checked": 48,
    "certificate: names no files": 48,
    "publish: only sizes of files count": 48,
    "certificate: names half of the files": 48,
    "claim: put even if another plan holds the target": 41,
    "a certificate has no digest of its own": 87,
    "marks of publication are ignored": 108,
    "publish: no mark behind `_metadata`": 108,
    "publish: any candidate is accepted": 121,
    "validation: states of elements are not compared": 617,
    "validation: headers of elements are not compared": 617,
    "discard: open uploads stay": 144,
    "validation: every other key group is skipped": 169,
    "validation: one key group of a run is compared": 1045,
    "written handles are trusted, whatever files exist": 328,
    "written handles are trusted, whatever the sizes": 328,
    "surgery: an operator misread once counts as unreadable": 1018636,
    "completion: errors are ignored": 292,
    "validation: elements are not compared": 371,
    "validation: elements are counted only": 371,
    "validation: reads the source as it is now": 4167,
    "headers: ids are never translated": 378,
    "discard: a published result is removed, too": 418,
    "publish: does not look for discard": 2871,
    "validation: broadcast copies are not compared": 2891,
    "resume: a file of any size counts as written": 328,
    "validation: records are not compared": 2043,
    "delete: a refusal is taken for success": 334,
    "surgery: renames are forgotten": 12,
    "surgery: dropped operators stay": 20,
    "refer: once published, files are not checked again": 380,
    "refer: the certificate does not say so": 380,
    "versions: a delete removes the newest version only": 48,
    "versions: a delete removes all versions": 48,
    "versions: an object with a marker is not deleted again": 3144,
    "versions: a stat finds an object that a marker hides": 544,
    "versions: a marker prevents a put": 445,
    "versions: a listing has hidden objects": 48,
    "versions: a read takes the oldest version of a document": 807,
    "sums: a proof by records is made by files": 10,
    "sums: elements are not read, either": 611,
    "sums: bytes without checksums are not read": 2561,
    "sums: small files are not read, either": 8995,
    "sums: the certificate counts half of the bytes": 65,
    "drop: dropped states stay": 41,
    "drop: one state of several stays": 41,
    "drop: one more state is dropped": 41,
    "drop: states of that name are dropped everywhere": 90,
    "drop: the next operator is dropped, too": 20,
    "drop: only the last subtask loses its elements": 41,
    "drop: the header of elements stays": 41,
    "drop: records of a state stay": 90,
    "drop: the certificate counts nothing": 217,
    "drop: the certificate does not name it": 20,
    "changelog: the last change is forgotten": 154,
    "changelog: changes backwards": 452,
    "changelog: only its first set is read": 509,
    "changelog: cleared values stay": 509,
    "changelog: added elements replace the list": 1303,
    "changelog: the first new row is lost": 154,
}
"""Seeds that are tried first, since they have shown the bug before."""

BUGS = (
    *in_storage.BUGS,
    *in_runstate.BUGS,
    *in_dealing.BUGS,
    *in_moving.BUGS,
    *in_validation.BUGS,
    *in_databases.BUGS,
    *in_weather.BUGS,
    *in_stores.BUGS,
    *in_drops.BUGS,
    *in_changelogs.BUGS,
    *in_rounds.BUGS,
)

FOUND_BY_HISTORIES = [bug for bug in BUGS if bug.name not in COVERED_ELSEWHERE]


class Catch(NamedTuple):
    """First seed whose history shows a bug, number of histories played until then, and the broken promise."""

    seed: int
    histories_played: int
    broken_promise: str


def hunt(bug: Bug, seeds: Iterable[int]) -> Catch | None:
    """Play histories until one of them shows a bug, and return its `Catch`; return None if none does.

    Call it within `with installed():`. A native bug is only hunted in histories with native state. For a bug in rounds,
    seeds count from `FIRST_ROUND_SEED` on, and bases are made without the bug. Raises `AssertionError` if the history
    breaks a promise without the bug, too.
    """
    known_seeds = [KNOWN_SEEDS[bug.name]] if bug.name in KNOWN_SEEDS else []
    eligible_seeds = filter(has_native_state, seeds) if bug.native else seeds
    if bug.rounds:
        make_bases()
        eligible_seeds = (FIRST_ROUND_SEED + seed for seed in seeds)
    catch = None
    with bug.plant():
        clear_caches()
        try:
            for histories_played, seed in enumerate((*known_seeds, *eligible_seeds), 1):
                broken_promise = play(seed).broken_promise
                if broken_promise is not None:
                    catch = Catch(seed, histories_played, broken_promise)
                    break
        finally:
            clear_caches()
    if catch is not None and (broken_without_bug := play(catch.seed).broken_promise) is not None:
        raise AssertionError(f"seed {catch.seed} is broken without the bug, too: {broken_without_bug}")
    return catch


def hunt_by_name(seeds: Iterable[int], name: str) -> Catch | None:
    """Hunt the bug of that name; return None for a bug that no history shows."""
    return None if name in COVERED_ELSEWHERE else hunt(next(bug for bug in BUGS if bug.name == name), seeds)
