"""Shows the insight into a snapshot or a plan as tables and sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rescale.insight.hand_picked_keys import HandPickedKeys
from rescale.insight.insight import Insight, JobRestore
from rescale.insight.shapes import Candidate, ShapeAdvice
from rescale.report.page import Block, Table, paragraphs, table, table_section
from rescale.report.shortening import cut_lines, note_on_rest
from rescale.text.names import first_of
from rescale.text.units import arrow, counted, duration, human_bytes

_MOST_SHAPES = 10
_MOST_NAMED = 3
_MOST_LISTED = 12
_NOTABLE_IDLE_SHARE = 0.05
_NOTABLE_HOT_BYTES = 1_000_000

RESTORES_TITLE = "What Flink itself would do at restore"
FORMATS_TITLE = "What restoring the result costs Flink, by format"
SHAPES_TITLE = "How evenly bytes would be distributed"


def restores_table(insight: Insight) -> Table:
    """Return the table of what Flink itself would read at restore, and for how long: a row for each new parallelism."""
    headers = ("parallelism", "Flink reads", "record by record", "slowest subtask reads", "databases", "takes")
    rows = [_restore_row(restore) for restore in insight.restores if restore.operators]
    return _without_empty_columns(headers, rows)


def _restore_row(restore: JobRestore) -> tuple[str, ...]:
    state_bytes = sum(operator.state for operator in restore.operators)
    subtasks = [subtask for operator in restore.operators for subtask in operator.subtasks]
    bytes_read = sum(subtask.read for subtask in subtasks)
    slowest_subtask = max(subtasks, key=lambda s: (s.by_record, s.read))
    database_count = max((len(s.handles) for s in subtasks if s.base is not None), default=0)
    return (
        f"{restore_shape_text(restore)} ({restore.shape})",
        f"{human_bytes(bytes_read)} ({bytes_read / state_bytes:.2f} ×)" if state_bytes else human_bytes(bytes_read),
        human_bytes(sum(subtask.by_record for subtask in subtasks)),
        f"{human_bytes(slowest_subtask.read)}, {human_bytes(slowest_subtask.by_record)} by record",
        f"up to {database_count} a subtask" if database_count else "",
        f"about {duration(restore.seconds)}",
    )


def formats_table(insight: Insight) -> Table:
    """Return the table of what Flink needs to restore the result, by format of the result; no rows without a plan."""
    formats = insight.durations.formats if insight.durations is not None else ()
    rows = [
        (
            f"{restore.format}{' (this plan)' if restore.chosen else ''}",
            human_bytes(restore.read),
            human_bytes(restore.by_record),
            f"about {duration(restore.seconds)}",
        )
        for restore in formats
    ]
    return table(("format", "Flink reads", "record by record", "takes"), rows)


def restore_sentences(insight: Insight) -> Iterator[str]:
    """Yield sentences on why Flink refuses a shape, and why a shape takes Flink more time than another."""
    for restore in insight.restores:
        if restore.refused:
            yield restore.refused
    scaled_out = [
        restore
        for restore in insight.restores
        if any(operator.new_parallelism > operator.parallelism for operator in restore.operators)
    ]
    merging_restore = next((restore for restore in scaled_out if _merging_subtask_count(restore)), None)
    splitting_restore = next(
        (restore for restore in scaled_out if not _merging_subtask_count(restore) and _has_databases(restore)),
        None,
    )
    if merging_restore and splitting_restore:
        yield (
            f"{restore_shape_text(merging_restore)} costs Flink more than {restore_shape_text(splitting_restore)}: "
            f"{counted(_merging_subtask_count(merging_restore), 'subtask')} would need several databases: each "
            "downloads them all, opens one and copies the rows of the others; at "
            f"{restore_shape_text(splitting_restore)} each subtask needs one database, and copies no rows"
        )
    if any(map(_merging_subtask_count, insight.restores)):
        foreign_handles = {
            (operator.operator_id, handle)
            for restore in insight.restores
            for operator in restore.operators
            for subtask in operator.subtasks
            for handle in subtask.foreign
        }
        exceptions_clause = (
            f", except {counted(len(foreign_handles), 'database')} with rows left by an earlier rescale"
            if foreign_handles
            else ""
        )
        yield (
            "Flink 2 ingests files instead of copying rows if state.backend.rocksdb.use-ingest-db-restore-mode is set"
            f"{exceptions_clause}; it downloads as many bytes with this option as without"
        )


def restore_shape_text(restore: JobRestore) -> str:
    """Return the old and the new parallelism of a restore as text, such as `4 → 6`."""
    shapes = sorted({arrow(o.parallelism, o.new_parallelism) for o in restore.operators})
    return f"{', '.join(shapes[:_MOST_NAMED])}{'…' if len(shapes) > _MOST_NAMED else ''}"


def _has_databases(restore: JobRestore) -> bool:
    return any(subtask.base is not None for operator in restore.operators for subtask in operator.subtasks)


def _merging_subtask_count(restore: JobRestore) -> int:
    """Return the number of subtasks that would copy rows from several databases into one."""
    return sum(bool(subtask.copied) for operator in restore.operators for subtask in operator.subtasks)


def shapes_table(insight: Insight) -> Table:
    """Return the table of the evenness (worst ÷ mean of bytes) at some parallelisms, with a row for each operator.

    The most uneven operators come first; operators with few keys are left out.
    """
    shapes = sorted(_shapes_with_enough_keys(insight), key=lambda advice: -_evenness_at(advice, advice.parallelism))
    headers = ("operator", "bytes, worst ÷ mean at parallelism", "nearest divisors", "better max parallelism")
    rows = [
        (
            advice.label,
            ("" if advice.exact else "≈ ")
            + ", ".join(f"{candidate.parallelism}: {candidate.evenness:.2f}" for candidate in advice.candidates),
            " or ".join(map(str, dict.fromkeys((advice.lower, advice.upper)))),
            str(advice.recommended_max_parallelism or ""),
        )
        for advice in shapes[:_MOST_SHAPES]
    ]
    return _without_empty_columns(headers, rows)


def _without_empty_columns(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    filled_columns = [i for i in range(len(headers)) if any(row[i] for row in rows)]
    return table([headers[i] for i in filled_columns], [[row[i] for i in filled_columns] for row in rows])


def _shapes_with_enough_keys(insight: Insight) -> list[ShapeAdvice]:
    """Return the advice for operators with so many keys that their evenness is not due to chance."""
    return [advice for advice in insight.shapes if advice.few_keys is None]


def _evenness_at(advice: ShapeAdvice, parallelism: int) -> float:
    """Return the worst ÷ mean of bytes at a parallelism, which must be one of the candidates."""
    return _candidate(advice, parallelism).evenness


def _candidate(advice: ShapeAdvice, parallelism: int) -> Candidate:
    return next(candidate for candidate in advice.candidates if candidate.parallelism == parallelism)


def shape_sentences(insight: Insight) -> Iterator[str]:
    """Yield sentences about parallelisms that do not divide the max parallelism, hot key groups, and few keys."""
    advice_by_shape: dict[tuple[int, int], list[ShapeAdvice]] = {}
    for advice in _shapes_with_enough_keys(insight):
        if advice.idle >= _NOTABLE_IDLE_SHARE:
            advice_by_shape.setdefault((advice.parallelism, advice.max_parallelism), []).append(advice)
    for same_shape in advice_by_shape.values():
        yield _idle_sentence(same_shape)
    for advice in insight.shapes:
        if advice.hot and advice.hot[0].bytes >= _NOTABLE_HOT_BYTES:
            hot_text = first_of([f"{group.key_group} ({group.share:.0%})" for group in advice.hot], _MOST_NAMED)
            yield f"{advice.label}: hot key groups, which no parallelism can split: {hot_text} of the keyed bytes"
    shapes_with_few_keys = [advice for advice in insight.shapes if advice.few_keys is not None]
    if shapes_with_few_keys:
        largest_key_count = max(advice.few_keys or 0 for advice in shapes_with_few_keys)
        yield (
            f"{_labels(shapes_with_few_keys)}: {'at most ' if len(shapes_with_few_keys) > 1 else ''}about "
            f"{counted(largest_key_count, 'key')}, so few that their distribution is chance, and says nothing about a "
            "shape"
        )


def _idle_sentence(same_shape: list[ShapeAdvice]) -> str:
    """Return the sentence for operators of the same shape: about the number of key groups, then about bytes."""
    advice = same_shape[0]
    parallelism, max_parallelism, recommended = advice.parallelism, advice.max_parallelism, advice.recommended
    candidate = _candidate(advice, parallelism)
    larger_count = max_parallelism - parallelism * candidate.least_key_groups
    better_maximum = advice.recommended_max_parallelism
    alternative_clause = (
        f"; or take max parallelism {better_maximum}, a multiple of {parallelism} with many divisors"
        if better_maximum
        else ""
    )
    worst_evenness = max(_evenness_at(advice, recommended) for advice in same_shape)
    return (
        f"{_labels(same_shape)}: {parallelism} does not divide {max_parallelism}; "
        f"{counted(larger_count, 'subtask')} would own {counted(candidate.most_key_groups, 'key group')} and the "
        f"others {candidate.least_key_groups}, so {advice.idle:.0%} of the capacity would be idle even if all key "
        f"groups were equally large. All subtasks own equally many key groups at {advice.lower} and {advice.upper} "
        f"(recommended: {recommended}, with worst ÷ mean {worst_evenness:.2f} of bytes)"
        f"{alternative_clause}"
    )


def _labels(same_shape: list[ShapeAdvice]) -> str:
    labels = [advice.label for advice in same_shape]
    others_text = f" and {counted(len(labels) - _MOST_NAMED, 'other')}" if len(labels) > _MOST_NAMED else ""
    return ", ".join(labels[:_MOST_NAMED]) + others_text


_LARGE_UNION_BYTES = 64 * 1024 * 1024
"""A union list state counts as large if all subtasks together restore at least this many bytes of it."""


def union_sentences(insight: Insight) -> Iterator[str]:
    """Yield a sentence for each union list that grows with every restore, or is large."""
    for union in insight.unions:
        label = f"{union.label}, state {union.state}"
        size_text = (
            f"{human_bytes(union.bytes)} go to each of {counted(union.parallelism, 'subtask')}, "
            f"{human_bytes(union.bytes_at_restore)} in all"
        )
        if union.repeated:
            yield (
                f"{label}: the subtasks wrote the same elements. If each subtask keeps all that it gets, this union "
                f"list grows with every restore; {size_text}. Let each subtask keep only its own part"
            )
        elif union.bytes_at_restore >= _LARGE_UNION_BYTES:
            yield f"{label}: a union list, {size_text}"


def hand_picked_sentences(insight: Insight) -> Iterator[str]:
    """Yield sentences about keys that a job picked to address subtasks: their new subtasks, and what to do."""
    for keys in insight.hand_picked_keys:
        key_names = _first_items_text([key.key for key in keys.keys])
        chance_text = f"{keys.chance:.1%}" if keys.chance >= 0.001 else "less than 0.1%"
        reason = "the smallest possible" if keys.smallest else f"by chance in {chance_text} of cases"
        yield (
            f"{keys.label}: its {counted(len(keys.keys), 'key')} ({key_names}; {reason}) each belong to a different "
            f"one of {keys.parallelism} subtasks, as if picked by hand to address subtasks by keyBy. "
            + _effect_sentence(keys)
        )
        if keys.idle or keys.crowded:
            yield f"{keys.label}: {_remedies_sentence(keys)}"


def _effect_sentence(keys: HandPickedKeys) -> str:
    if not (keys.idle or keys.crowded):
        return "These keys work in this shape only: in another shape some subtasks get several of them and others none"
    new_shape = f"With {keys.new_parallelism} subtasks (max parallelism {keys.new_max_parallelism})"
    idle_clause = (
        f"subtasks {_first_items_text(keys.idle)} would get none of them"
        if keys.idle
        else "each would get some of them"
    )
    crowded_clause = f", and {_first_items_text(keys.crowded)} several" if keys.crowded else ""
    return f"{new_shape} {idle_clause}{crowded_clause}"


def _remedies_sentence(keys: HandPickedKeys) -> str:
    """Return what to do about hand-picked keys if the order of records must stay."""
    table_clause = ""
    if keys.key_type:
        table_clause = f" ({_first_items_text(keys.table)}, the smallest key that Flink sends to each subtask)"
    remedies = (
        f"pick new keys for the new shape{table_clause}; old state stays with the old keys. Or keep the state as a "
        "union list, from which each restored subtask takes the part that the partitioner sends to it. Or flush "
        "buffers in prepareSnapshotPreBarrier, so that there is no state to move (never in snapshotState: records that "
        "it emits follow the barrier, and are lost if the job fails)"
    )
    if keys.dealt:
        remedies += (
            f". List state ({', '.join(keys.dealt)}) does not follow the keys: its elements are dealt round robin, so "
            "they may be restored to other subtasks than the keys that they belong to"
        )
    return remedies


def _first_items_text(items: Sequence[object]) -> str:
    return ", ".join(map(str, items[:_MOST_LISTED])) + ("…" if len(items) > _MOST_LISTED else "")


def duration_sentences(insight: Insight) -> Iterator[str]:
    """Yield how long the job would be down with this run, and with Flink's own rescale."""
    durations = insight.durations
    if durations is None:
        return
    yield (
        f"estimated, on two cores: a run takes about {duration(durations.run)}, and then Flink restores for about "
        f"{duration(durations.restore)}; the job is down for both, unless its state is moved while it runs"
    )
    if durations.flink is not None:
        yield f"Flink's own rescale, without this run: the job is down for about {duration(durations.flink)}"


def sentences(insight: Insight) -> list[str]:
    """Return all sentences, the most important ones first."""
    topics = (duration_sentences, restore_sentences, shape_sentences, hand_picked_sentences, union_sentences)
    return [sentence for sentences_on in topics for sentence in sentences_on(insight)]


def insight_blocks(insight: Insight) -> list[Block]:
    """Return the tables, then a paragraph for each sentence."""
    tables: list[Block] = [
        *table_section(RESTORES_TITLE, restores_table(insight)),
        *table_section(FORMATS_TITLE, formats_table(insight)),
        *table_section(SHAPES_TITLE, shapes_table(insight)),
        *note_on_rest(
            len(_shapes_with_enough_keys(insight)) - _MOST_SHAPES, "more operator", "more operators", is_in_report=False
        ),
    ]
    return [*tables, *paragraphs(cut_lines(sentences(insight)))]
