"""The answer of `match`: the operators of a snapshot and their counterparts in a job, as typed values."""

from __future__ import annotations

from typing import Literal

import msgspec


class MatchedState(msgspec.Struct, frozen=True):
    """Name and type of a state."""

    name: str
    type: str


class ListedOperator(msgspec.Struct, frozen=True):
    """An operator; `states` is null if nothing is known about its states, as in a job's plan."""

    operator_id: str
    uid: str
    label: str
    states: tuple[MatchedState, ...] | None


class MatchedOperator(ListedOperator, frozen=True):
    """An operator of the snapshot, and its counterpart in the job. `because` is the evidence; "" for equal ids."""

    new_operator_id: str
    new_label: str
    because: str


class ChainedOperator(MatchedOperator, frozen=True):
    """An operator whose counterpart is not the first of its chain; `chain` is the name of the first."""

    chain: str


class UnsureOperator(ListedOperator, frozen=True):
    """An operator of the snapshot that may correspond to any of the `candidates`."""

    candidates: tuple[ListedOperator, ...]


class MatchDocument(msgspec.Struct, frozen=True):
    """The answer of `match`.

    * `job_is`: `plan` for an answer of Flink's REST API, and `snapshot` for a second snapshot.
    * `certain`: whether every operator with state has a counterpart whose id is known.
    * `options`: the options that are proposed for `plan` and `run`, quoted for a shell.
    * `same`: pairs with the same id.
    * `proposed`: pairs to rename.
    * `in_the_way`: operators without state that already have the id that a renamed operator gets.
    * `chained`: pairs to rename, to a uid that only the job's author knows.
    * `unsure`: operators with state whose counterpart is not certain.
    * `only_in_snapshot`: operators with state and without any candidate.
    * `only_in_job`: operators of the job with state that match no operator of the snapshot.
    """

    snapshot: str
    job: str
    job_is: Literal["plan", "snapshot"]
    certain: bool
    options: tuple[str, ...]
    same: tuple[MatchedOperator, ...]
    proposed: tuple[MatchedOperator, ...]
    in_the_way: tuple[ListedOperator, ...]
    chained: tuple[ChainedOperator, ...]
    unsure: tuple[UnsureOperator, ...]
    only_in_snapshot: tuple[ListedOperator, ...]
    only_in_job: tuple[ListedOperator, ...]
    remarks: tuple[str, ...]
