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
from simulation.reader_cache import forget
from simulation.rounds import ROUNDS, make_bases
from simulation.script import has_native_state

INSTEAD = {
    "put if absent: the condition is not sent": "who claims looks once more before he writes; tests/storage finds it",
    "put if absent: looks first, then puts": "who claims looks once more before he writes",
    "put if absent: its own bytes, found there, are another's": "who puts looks again; tests/storage finds it",
    "claim: the condition is not sent": "who claims looks once more before he writes; tests/storage finds it",
    "a read does not ask for the pinned version": "all versions are looked at again before anything is certified",
    "whatever has a `_metadata` is published": "publish itself asks for the claim and the certificate",
    "publish: any plan's certificate will do": "it names the candidate, whose digest is compared",
    "validation: what else `_metadata` says is not": "needs another bug, too; tests/execution/compare finds it",
    "validation: values are not compared by `check_equal`": "as the one before",
    "certificate: files are not looked at again": "twins write the same; tests/runstate/test_publication.py finds it",
    "publish: no mark before `_metadata`": "a job would own what a killed run published; tests/runstate finds it",
    "discard: files that came behind the claim stay": "two must be killed at one place; test_removal.py finds it",
    "discard: files of state stay": "what has the name of a file of the plan is looked for again, and removed",
    "refer: any file may be referred to": "needs another bug, too; test_files_proof.py finds it",
    "proof by files: what hides is not looked at": "as the one before",
    "who is missed in a listing has gone": "one history in a million shows it; test_written_handles.py finds it",
    "publish: looks for the claim before the note": "one history in a million shows it; test_publication.py finds it",
    "delete: what is gone is an error": "only two who discard at once delete what is gone",
}
"""Bugs that no history has shown, with the reason: another check covers them."""

SEEDS = {
    "publish: the certificate is not asked for": 23,
    "publish: open uploads stay": 25,
    "refer: to other files of the source": 380,
    "refer: publish looks at its own files only": 4414,
    "refer: the certificate names own files only": 4414,
    "proof by files: copies are not compared": 8995,
    "proof by files: nothing hides, and nobody looks": 116,
    "MANIFEST: misses a file": 16,
    "MANIFEST: misses a state": 16,
    "MANIFEST: sizes are one too large": 16,
    "MANIFEST: smallest keys are too large": 16,
    "MANIFEST: largest keys are too small": 16,
    "MANIFEST: all in one level": 50,
    "MANIFEST: the last sequence number is too low": 50,
    "MANIFEST: the next number is in use": 50,
    "databases: dirty ones are joined": 50,
    "databases: nothing hides foreign rows": 50,
    "databases: what hides is too old": 50,
    "databases: too much is hidden": 126,
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
    "publish: no second look at documents": 107,
    "claim: files that RocksDB named are another's": 225,
    "errors: a damaged source may pass": 5,
    "inline: the last byte is lost": 6,
    "no answer is taken for a free target": 720,
    "copy: only the first chunk": 6,
    "pieces: neighbours in any file are joined": 7,
    "copy: lengths of key groups backwards": 7,
    "sink: a part is written twice": 10,
    "validation: everything is found equal": 11,
    "validation: headers of key groups are not": 11,
    "key groups: the planner alone has floors": 12,
    "parts: what is staged is not joined": 13,
    "a listing ends with its first page": 40,
    "abort: one upload of several": 47,
    "validation: key groups by their first bytes": 169,
    "validation: the source is read twice": 169,
    "the candidate of an earlier try stays": 369,
    "a target that another plan has is one's own": 41,
    "everything may be done in every state": 41,
    "errors: a taken target may pass": 46,
    "a stat forgets the ETag": 48,
    "publish: no file is looked at": 48,
    "certificate: names no files": 48,
    "publish: only sizes of files count": 48,
    "certificate: names half of the files": 48,
    "claim: put whoever has the target": 41,
    "a certificate has no digest of its own": 87,
    "a mark of publication is not looked at": 108,
    "publish: no mark behind `_metadata`": 108,
    "publish: any candidate will do": 121,
    "validation: states of elements are not": 617,
    "validation: headers of elements are not": 617,
    "discard: open uploads stay": 144,
    "validation: every other key group is skipped": 169,
    "validation: one key group of a run is compared": 313,
    "written handles are believed, whatever is there": 328,
    "written handles are believed, whatever the sizes": 328,
    "surgery: what is misread once cannot be read": 1018636,
    "completion: no error counts": 292,
    "validation: elements are not compared": 371,
    "validation: elements are counted only": 371,
    "validation: the source as it is now": 4167,
    "headers: ids are never translated": 378,
    "discard: published or not": 418,
    "publish: does not look for discard": 2871,
    "validation: broadcast copies are not compared": 2891,
    "resume: a file of any size was written": 328,
    "validation: records are not compared": 2043,
    "delete: a refusal is taken for success": 334,
    "surgery: new uids are forgotten": 12,
    "surgery: who is left out stays": 20,
    "refer: once published, nobody looks again": 380,
    "refer: the certificate does not say so": 380,
    "versions: who deletes takes the newest away": 48,
    "versions: who deletes takes all away": 48,
    "versions: what has a marker is deleted no more": 3144,
    "versions: what a marker hides is there": 544,
    "versions: a marker is in the way of a put": 445,
    "versions: a listing has what is hidden": 48,
    "versions: a read takes the oldest of a document": 807,
    "sums: whoever asks for all records gets them": 10,
    "sums: elements are believed, too": 611,
    "sums: what the store does not say is believed": 313,
    "sums: small files are believed, too": 8995,
    "sums: the certificate tells half of it": 65,
    "drop: states that are to go stay": 41,
    "drop: one state of several stays": 41,
    "drop: one state more goes": 41,
    "drop: states of that name go everywhere": 90,
    "drop: the next operator goes, too": 20,
    "drop: only the last subtask loses its elements": 41,
    "drop: the header of elements stays": 41,
    "drop: records of a state stay": 90,
    "drop: the certificate counts nothing": 217,
    "drop: the certificate does not name it": 20,
    "changelog: the last change is forgotten": 154,
    "changelog: changes backwards": 452,
    "changelog: only its first set is read": 509,
    "changelog: what is cleared stays": 509,
    "changelog: what is added replaces": 1303,
    "changelog: what is new is lost": 154,
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

FOUND_BY_HISTORIES = [bug for bug in BUGS if bug.name not in INSTEAD]


class Found(NamedTuple):
    """First seed whose history shows a bug, number of histories played until then, and the broken promise."""

    seed: int
    played: int
    broken: str


def hunt(bug: Bug, seeds: Iterable[int]) -> Found | None:
    """Return the first find of a bug, in a block of `installed`; for a native bug, seeds without native state are
    skipped. For a bug in rounds, seeds count from `ROUNDS` on, and bases are made without the bug.

    A history that breaks a promise without the bug, too, is an `AssertionError`.
    """
    known = [SEEDS[bug.name]] if bug.name in SEEDS else []
    tried = filter(has_native_state, seeds) if bug.native else seeds
    if bug.rounds:
        make_bases()
        tried = (ROUNDS + seed for seed in seeds)
    catch = None
    with bug.plant():
        forget()
        try:
            for played, seed in enumerate((*known, *tried), 1):
                broken = play(seed).broken
                if broken is not None:
                    catch = Found(seed, played, broken)
                    break
        finally:
            forget()
    if catch is not None and (without := play(catch.seed).broken) is not None:
        raise AssertionError(f"seed {catch.seed} is broken without the bug, too: {without}")
    return catch


def hunt_by_name(seeds: Iterable[int], name: str) -> Found | None:
    """Hunt the bug of that name; return None for a bug that no history shows."""
    return None if name in INSTEAD else hunt(next(bug for bug in BUGS if bug.name == name), seeds)
