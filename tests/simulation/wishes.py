"""Requests of a history, and of a rival with the same target: a shape, a format, dropped operators and states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from rescale.plan.proof import Proof
from rescale.planning.request.result_files import Format
from simulation.native_sources import fit_to_kind
from simulation.rows import Kind
from simulation.run import Wish
from simulation.sources import Source

_DROPS_SHARE = 0.08
"""Share of histories with states of known names in which an operator or some of its states may be dropped."""


def draw_wishes(random: Random, native_random: Random | None, source: Source) -> list[Wish]:
    """Draw two wishes; with `native_random`, they have a format, files and a proof that fit native state."""
    wishes = [_draw_wish(random, source) for _ in range(2)]
    return wishes if native_random is None else [fit_to_kind(native_random, source, wish) for wish in wishes]


def with_surgery_and_proofs(
    seed: int, source: Source, wishes: Sequence[Wish], *, has_surgery: bool, by_checksums: bool
) -> list[Wish]:
    """Return the wishes with renames, drops and other proofs.

    With `by_checksums`, wishes that copy key groups get the proof by files.
    """
    if has_surgery:
        wishes = [_with_surgery(Random(f"surgery {seed} {i}"), source, wish) for i, wish in enumerate(wishes)]
    wishes = [_with_drops(seed, i, source, wish) for i, wish in enumerate(wishes)]
    if by_checksums:
        wishes = [replace(wish, proof=Proof.FILES) if _may_use_checksums(source, wish) else wish for wish in wishes]
    return wishes


def _draw_wish(random: Random, source: Source) -> Wish:
    """Draw a shape in which every subtask has a key group."""
    old_shapes = [shape for shape in source.shapes.values() if shape[1] != 1]
    while True:
        maximum = "" if random.random() < 0.5 else random.choice(source.max_parallelisms)
        wish = Wish(random.choice(source.parallelisms), maximum)
        if all(int(wish.parallelism or p) <= int(wish.max_parallelism or m) for p, m in old_shapes):
            return wish


def _with_surgery(random: Random, source: Source, wish: Wish) -> Wish:
    """Rename one operator, drop another one, or do both, in some histories."""
    if not source.uids or random.random() < 0.7:
        return wish
    renamed_uid, dropped_uid = random.sample(source.uids, 2)
    renames = (f"{renamed_uid}={renamed_uid} again",) if random.random() < 0.7 else ()
    drops = (dropped_uid,) if random.random() < 0.5 else ()
    return replace(wish, renames=renames, drops=drops, proof=Proof.RECORDS if "keyed" in drops else wish.proof)


def _with_drops(seed: int, i: int, source: Source, wish: Wish) -> Wish:
    """Drop an operator or some states in some histories, drawn from their own seed."""
    if not source.uids or Random(f"drops {seed}").random() >= _DROPS_SHARE:
        return wish
    random = Random(f"drops {seed} {i}")
    renamed_uids = {rename.partition("=")[0] for rename in wish.renames}
    if not wish.drops and random.random() < 0.3:
        wish = replace(wish, drops=(random.choice([uid for uid in source.uids if uid not in renamed_uids]),))
    states = [state for state in source.states if state.partition(":")[0] not in wish.drops]
    wish = replace(wish, state_drops=tuple(random.sample(states, min(random.choice((0, 1, 1, 2, 3)), len(states)))))
    return replace(wish, proof=Proof.RECORDS) if _leaves_out_keyed(wish) else wish


def _may_use_checksums(source: Source, wish: Wish) -> bool:
    """Return whether the run copies the key groups of the source unchanged, so that checksums can prove them."""
    old_maxima = {str(maximum) for _, maximum in source.shapes.values()}
    is_copied = wish.format is Format.KEEP and wish.max_parallelism in ("", *old_maxima) and not _leaves_out_keyed(wish)
    return is_copied and bool(source.uids) and source.kind is not Kind.ROCKSDB and not source.is_changelog


def _leaves_out_keyed(wish: Wish) -> bool:
    """Return whether the wish drops the operator `keyed`, or one of its states."""
    return "keyed" in wish.drops or any(drop.startswith("keyed:") for drop in wish.state_drops)
