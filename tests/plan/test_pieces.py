"""Pieces put together and taken apart; literals; the budget for inline streams."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from rescale.plan.pieces import Literals, Piece, merge_adjacent, piece_of, split
from rescale.planning.streams.inline import INLINE_BUDGET, INLINE_LIMIT, InlineBudget
from rescale.snapshot.locate import Extent
from support import snapshots
from support.pipeline import plan_rescale

pieces = st.lists(
    st.builds(
        Piece,
        st.sampled_from([None, 0, 1]),
        st.integers(0, 6),
        st.integers(0, 4),
        st.sampled_from([None, None, 0]),
    )
)


def content(*pieces: Piece) -> list[tuple[int | None, int, int | None]]:
    """Return for every byte of the pieces its file, its offset in the file, and the table that translates its ids."""
    return [(file, at, ids) for file, start, length, ids in pieces for at in range(start, start + length)]


@given(pieces)
def test_merged_pieces_have_the_same_bytes(pieces: list[Piece]) -> None:
    result = merge_adjacent(pieces)
    assert content(*result) == content(*pieces)
    assert all(piece.length for piece in result)
    assert merge_adjacent(result) == result


def test_adjacent_pieces_are_merged_unless_their_id_tables_differ() -> None:
    parts = [Piece(1, 0, 5), Piece(1, 5, 0), Piece(1, 5, 2), Piece(1, 7, 3, 0), Piece(2, 10, 1), Piece(None, 11, 1)]
    assert merge_adjacent(parts) == (Piece(1, 0, 7), Piece(1, 7, 3, 0), Piece(2, 10, 1), Piece(None, 11, 1))


@given(pieces, st.data())
def test_split_pieces_have_the_same_bytes(pieces: list[Piece], data: st.DataObject) -> None:
    all_content = content(*pieces)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(all_content)), max_size=5)))
    bounds = [0, *cuts, len(all_content)]
    runs = split(merge_adjacent(pieces), [end - start for start, end in pairwise(bounds)])
    assert [content(*run) for run in runs] == [all_content[start:end] for start, end in pairwise(bounds)]


def test_split_may_leave_bytes_of_the_pieces_over() -> None:
    assert list(split([Piece(1, 0, 10)], [3, 0, 2])) == [(Piece(1, 0, 3),), (), (Piece(1, 3, 2),)]


def test_equal_literals_are_kept_once() -> None:
    literals = Literals()
    literal_pieces = [literals.add(data) for data in (b"one", b"two", b"one", b"")]
    assert literals.bytes() == b"onetwo"
    assert literal_pieces == [Piece(None, 0, 3), Piece(None, 3, 3), Piece(None, 0, 3), Piece(None, 6, 0)]


def test_small_streams_are_inlined_until_the_budget_is_spent() -> None:
    budget = InlineBudget()
    assert not budget.try_take(INLINE_LIMIT + 1)
    fitting_count = INLINE_BUDGET // INLINE_LIMIT
    assert all(budget.try_take(INLINE_LIMIT) for _ in range(fitting_count))
    rest_bytes = INLINE_BUDGET - fitting_count * INLINE_LIMIT
    assert not budget.try_take(rest_bytes + 1)
    assert budget.try_take(rest_bytes)
    assert not budget.try_take(1)
    assert budget.try_take(0)


def test_inline_budget_counts_streams_chosen_before() -> None:
    operators = plan_rescale(snapshots.directory("2-source"), "/nowhere", ["3"]).operators
    spent_bytes = sum(stream.size for operator in operators for stream in operator.streams if stream.inline)
    assert spent_bytes
    budget = InlineBudget(operators)
    fitting_count, rest_bytes = divmod(INLINE_BUDGET - spent_bytes, INLINE_LIMIT)
    assert all(budget.try_take(INLINE_LIMIT) for _ in range(fitting_count))
    assert not budget.try_take(rest_bytes + 1)
    assert budget.try_take(rest_bytes)


def test_a_piece_is_an_extent_with_ids() -> None:
    assert piece_of(Extent(3, 4, 5), 6) == Piece(3, 4, 5, 6)
