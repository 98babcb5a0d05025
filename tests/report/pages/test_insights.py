"""Insights as sentences and tables, which appear only if there is something to decide."""

from __future__ import annotations

from dataclasses import replace

from rescale.flink.keyed.key_group_table import Framing
from rescale.insight.hand_picked_keys import HandPickedKeys, PickedKey
from rescale.insight.insight import Insight, plan_insight, snapshot_insight
from rescale.insight.unions import UnionList
from rescale.planning.planner import make_plan
from rescale.planning.request.request import make_request
from rescale.report.page import Page
from rescale.report.pages.insights import insight_blocks, restores_table, sentences, shapes_table
from rescale.report.renderers.text import render_text
from rescale.snapshot.model import Snapshot
from support.synthetic import database, header_of, keyed_stream, operator, own_stream, snapshot

HEADER = header_of("sum")

EMPTY_INSIGHT = Insight((), (), (), (), ())

PICKED_KEYS = HandPickedKeys(
    "id", "deal", 4, 6, 128, (PickedKey("7", 3, 0, 0), PickedKey("9", 40, 1, 0)), 0.09, False, (1, 2), (0,), "int",
    (5, 6), ("pending",),
)  # fmt: skip


def sentences_on(insight: Insight) -> list[str]:
    return sentences(insight)


def snapshot_sentences(source: Snapshot) -> list[str]:
    return sentences_on(snapshot_insight(source))


def test_even_small_snapshot_has_no_insight() -> None:
    streams = tuple(own_stream(i, 4, 128, Framing.CANONICAL) for i in range(4))
    assert snapshot_sentences(snapshot(operator("counts", 4, keyed=streams))) == []


def test_insight_says_why_one_and_a_half_times_costs_more_than_twice() -> None:
    source = snapshot(operator("counts", 4, databases=tuple(database(i, 4, 128, 32_000) for i in range(4))))
    (cost_sentence, ingest_sentence) = snapshot_sentences(source)
    assert cost_sentence.startswith("4 → 6 costs Flink more than 4 → 8: 2 subtasks would need several databases")
    assert "use-ingest-db-restore-mode" in ingest_sentence


def test_insights_name_uneven_parallelism_and_hot_key_groups() -> None:
    groups = dict.fromkeys(range(10), 1_000_000) | {7: 50_000_000}
    streams = tuple(
        keyed_stream(i, {g: s for g, s in groups.items() if a <= g <= b}, Framing.CANONICAL, first=a, last=b)
        for i, (a, b) in enumerate([(0, 2), (3, 4), (5, 7), (8, 9)])
    )
    source = snapshot(operator("counts", 4, 10, keyed=streams))
    (loss_sentence, hot_sentence) = snapshot_sentences(source)
    assert "4 does not divide 10; 2 subtasks would own 3 key groups and the others 2, so 17% of" in loss_sentence
    assert "equally many key groups at 2 and 5 (recommended: 5, with worst ÷ mean 4.32 of bytes)" in loss_sentence
    assert "or take max parallelism 60, a multiple of 4 with many divisors" in loss_sentence
    assert "hot key groups, which no parallelism can split: 7 (85%)" in hot_sentence
    table = shapes_table(snapshot_insight(source))
    assert table.rows[0][2:] == ("2 or 5", "60")


def test_each_shape_has_one_row_in_the_table_of_restores() -> None:
    """Twice one subtask, and one and a half times one subtask rounded up, are the same shape."""
    source = snapshot(operator("counts", 1, keyed=(own_stream(0, 1, 128, Framing.CANONICAL),)))
    rows = restores_table(snapshot_insight(source)).rows
    assert [row[0] for row in rows] == ["1 → 2 (twice)"]
    assert not [row for row in restores_table(insight_into_plan(source, "2")).rows if "twice" in str(row[0])]


def insight_into_plan(source: Snapshot, parallelism: str) -> Insight:
    plan = make_plan(source, make_request("/source", "/target", [parallelism]))
    return plan_insight(plan, source)


def test_operators_left_out_of_the_evenness_table_are_counted() -> None:
    streams = tuple(own_stream(i, 4, 128, Framing.CANONICAL) for i in range(4))
    for operator_count, is_remarked in ((10, False), (12, True)):
        source = snapshot(*(operator(f"counts {i}", 4, keyed=streams) for i in range(operator_count)))
        text = render_text(Page(tuple(insight_blocks(snapshot_insight(source)))))
        assert ("2 more operators: all in the JSON document" in text) is is_remarked


def test_operator_with_few_keys_has_one_sentence_and_no_table_row() -> None:
    streams_of_few_keys = tuple(
        keyed_stream(i, {32 * i: 1000}, Framing.CANONICAL, first=32 * i, last=32 * i + 31) for i in range(4)
    )
    streams_of_many_keys = tuple(own_stream(i, 4, 128, Framing.CANONICAL) for i in range(4))
    insight = snapshot_insight(
        snapshot(operator("few", 4, keyed=streams_of_few_keys), operator("many", 4, keyed=streams_of_many_keys))
    )
    assert [row[0] for row in shapes_table(insight).rows] == ["many"]
    assert sentences(insight) == [
        "few: about 4 keys, so few that their distribution is chance, and says nothing about a shape"
    ]


def test_insight_names_keys_picked_by_hand_and_how_to_replace_them() -> None:
    (key_sentence, advice_sentence) = sentences_on(replace(EMPTY_INSIGHT, hand_picked_keys=(PICKED_KEYS,)))
    assert "its 2 keys (7, 9; by chance in 9.0% of cases) each belong to a different one of 4 subtasks" in key_sentence
    assert "With 6 subtasks (max parallelism 128) subtasks 1, 2 would get none of them, and 0 several" in key_sentence
    assert "(5, 6, the smallest key that Flink sends to each subtask)" in advice_sentence
    assert "prepareSnapshotPreBarrier" in advice_sentence
    assert "(pending)" in advice_sentence
    (even_shape_sentence,) = sentences_on(
        replace(EMPTY_INSIGHT, hand_picked_keys=(replace(PICKED_KEYS, idle=(), crowded=()),))
    )
    assert "in this shape only" in even_shape_sentence
    (small_chance_sentence, _) = sentences_on(
        replace(EMPTY_INSIGHT, hand_picked_keys=(replace(PICKED_KEYS, chance=1e-9),))
    )
    assert "by chance in less than 0.1% of cases" in small_chance_sentence


def test_growing_or_large_union_list_gives_an_insight() -> None:
    union = UnionList("id", "lists", "offsets", 6, 60, 4, 240, repeated=True)
    assert (
        "grows with every restore; 60 bytes go to each of 4 subtasks"
        in sentences_on(replace(EMPTY_INSIGHT, unions=(union,)))[0]
    )
    assert sentences_on(replace(EMPTY_INSIGHT, unions=(replace(union, repeated=False),))) == []
    large_union = replace(union, repeated=False, bytes_at_restore=1 << 30)
    assert "a union list" in sentences_on(replace(EMPTY_INSIGHT, unions=(large_union,)))[0]


def test_document_has_the_bytes_of_every_key_group() -> None:
    streams = tuple(
        keyed_stream(
            i, dict.fromkeys(range(4 * i, 4 * i + 4), 10 + i), Framing.CANONICAL, HEADER, first=4 * i, last=4 * i + 3
        )
        for i in range(2)
    )
    source = snapshot(operator("counts", 2, 8, keyed=streams), operator("lists", 2))
    (source_groups,) = snapshot_insight(source).key_groups
    assert (source_groups.label, source_groups.before, source_groups.exact) == ("counts", (10,) * 4 + (11,) * 4, True)
    assert source_groups.after is source_groups.after_exact is None
    for max_parallelism, after, is_exact in (("8", source_groups.before, True), ("4", (21,) * 4, False)):
        plan = make_plan(source, make_request("/source", "/target", max_parallelism=[max_parallelism]))
        (plan_groups,) = plan_insight(plan, source).key_groups
        assert (plan_groups.before, plan_groups.after, plan_groups.after_exact) == (
            source_groups.before,
            after,
            is_exact,
        )


def test_job_without_keyed_state_has_no_tables() -> None:
    source = snapshot(operator("lists", 4))
    insight = plan_insight(make_plan(source, make_request("/source", "/target", ["6"])), source)
    assert not restores_table(insight).rows
    assert not shapes_table(insight).rows
    assert len(sentences(insight)) == 2
