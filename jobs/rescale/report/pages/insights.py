"""What insight into a snapshot or a plan says to people: JSON values, tables and sentences.

Sentences are one for each thing that somebody may have to decide.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from rescale.insight.insight import Insight
from rescale.names import first_of
from rescale.report.page import Block, Table, paragraphs, table, tabled
from rescale.report.shortening import cut_lines, left_out
from rescale.report.units import arrow, counted, duration, human_bytes

_MOST_SHAPES = 10
_MOST_NAMED = 3
_MOST_LISTED = 12
_NOTABLE_LOSS = 0.05
_NOTABLE_BYTES = 1_000_000

RESTORES = "What Flink itself would do at restore"
FORMATS = "What restoring the result costs Flink, by format"
SHAPES = "How evenly bytes would lie"


def insight_document(insight: Insight) -> dict[str, Any]:
    """All of it as JSON values."""
    document: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(insight))
    return document


def restores_table(document: dict[str, Any]) -> Table:
    """What Flink itself would do at restore, a row for each shape; of databases, where there are any."""
    headers = ("parallelism", "Flink reads", "record by record", "slowest subtask reads", "databases", "takes")
    return _without_empty_columns(headers, [_restore_row(one) for one in document["restores"] if one["operators"]])


def _restore_row(restore: dict[str, Any]) -> tuple[str, ...]:
    state = sum(operator["state"] for operator in restore["operators"])
    subtasks = [subtask for operator in restore["operators"] for subtask in operator["subtasks"]]
    read = sum(subtask["read"] for subtask in subtasks)
    slowest = max(subtasks, key=lambda s: (s["by_record"], s["read"]))
    databases = max((len(s["handles"]) for s in subtasks if s["base"] is not None), default=0)
    return (
        f"{restore_shape(restore)} ({restore['shape']})",
        f"{human_bytes(read)} ({read / state:.2f} ×)" if state else human_bytes(read),
        human_bytes(sum(subtask["by_record"] for subtask in subtasks)),
        f"{human_bytes(slowest['read'])}, {human_bytes(slowest['by_record'])} by record",
        f"up to {databases} a subtask" if databases else "",
        f"about {duration(restore['seconds'])}",
    )


def formats_table(document: dict[str, Any]) -> Table:
    """What restoring the result takes in each format that it could have; without rows where there is no plan."""
    formats = document["durations"]["formats"] if document["durations"] is not None else ()
    rows = [
        (
            f"{one['format']}{' (this plan)' if one['chosen'] else ''}",
            human_bytes(one["read"]),
            human_bytes(one["by_record"]),
            f"about {duration(one['seconds'])}",
        )
        for one in formats
    ]
    return table(("format", "Flink reads", "record by record", "takes"), rows)


def restore_sentences(document: dict[str, Any]) -> Iterator[str]:
    """Why the one shape costs Flink more than the other, and where it refuses."""
    for restore in document["restores"]:
        if restore["refused"]:
            yield restore["refused"]
    growing = [restore for restore in document["restores"] if _grows(restore)]
    copying = next((restore for restore in growing if _between(restore)), None)
    cutting = next((restore for restore in growing if not _between(restore) and _has_databases(restore)), None)
    if copying and cutting:
        yield (
            f"{restore_shape(copying)} costs Flink more than {restore_shape(cutting)}: "
            f"{counted(_between(copying), 'subtask')} would lie between databases, download all of these, open one and "
            f"copy the rows of the others; at {restore_shape(cutting)} every database is cut, and nothing is copied"
        )
    if any(map(_between, document["restores"])):
        foreign = {
            (operator["operator_id"], handle)
            for restore in document["restores"]
            for operator in restore["operators"]
            for subtask in operator["subtasks"]
            for handle in subtask["foreign"]
        }
        but = f", but {counted(len(foreign), 'database')} with rows that an earlier rescale left" if foreign else ""
        yield (
            "Flink 2 ingests files instead of copying rows if state.backend.rocksdb.use-ingest-db-restore-mode is set"
            f"{but}; what is downloaded stays the same"
        )


def restore_shape(restore: dict[str, Any]) -> str:
    """The parallelisms of a restore, such as `4 → 6`."""
    shapes = sorted({arrow(o["parallelism"], o["new_parallelism"]) for o in restore["operators"]})
    return f"{', '.join(shapes[:_MOST_NAMED])}{'…' if len(shapes) > _MOST_NAMED else ''}"


def _has_databases(restore: dict[str, Any]) -> bool:
    return any(subtask["base"] is not None for operator in restore["operators"] for subtask in operator["subtasks"])


def _between(restore: dict[str, Any]) -> int:
    """How many subtasks need several databases."""
    return sum(bool(subtask["copied"]) for operator in restore["operators"] for subtask in operator["subtasks"])


def _grows(restore: dict[str, Any]) -> bool:
    return any(operator["new_parallelism"] > operator["parallelism"] for operator in restore["operators"])


def shapes_table(document: dict[str, Any]) -> Table:
    """Bytes, worst ÷ mean, at some parallelisms; an operator a row: those with most to say first, few keys left out."""
    shapes = sorted(_telling(document), key=lambda shape: -_at(shape, shape["parallelism"]))
    headers = ("operator", "bytes, worst ÷ mean at parallelism", "as many key groups each at", "better max parallelism")
    rows = [
        (
            shape["label"],
            ("" if shape["exact"] else "≈ ")
            + ", ".join(f"{c['parallelism']}: {c['evenness']:.2f}" for c in shape["candidates"]),
            " or ".join(map(str, dict.fromkeys((shape["lower"], shape["upper"])))),
            str(shape["recommended_max_parallelism"] or ""),
        )
        for shape in shapes[:_MOST_SHAPES]
    ]
    return _without_empty_columns(headers, rows)


def _without_empty_columns(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    filled = [i for i in range(len(headers)) if any(row[i] for row in rows)]
    return table([headers[i] for i in filled], [[row[i] for i in filled] for row in rows])


def _telling(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Shapes whose evenness means something."""
    return [shape for shape in document["shapes"] if shape["few_keys"] is None]


def _at(shape: dict[str, Any], parallelism: int) -> float:
    """Worst ÷ mean of the bytes at one of the candidates."""
    found: float = _candidate(shape, parallelism)["evenness"]
    return found


def _candidate(shape: dict[str, Any], parallelism: int) -> dict[str, Any]:
    found: dict[str, Any] = next(c for c in shape["candidates"] if c["parallelism"] == parallelism)
    return found


def shape_sentences(document: dict[str, Any]) -> Iterator[str]:
    """What is lost to a parallelism that does not divide, once for each shape; then hot key groups, and few keys."""
    shapes: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for shape in _telling(document):
        if shape["idle"] >= _NOTABLE_LOSS:
            shapes.setdefault((shape["parallelism"], shape["max_parallelism"]), []).append(shape)
    for alike in shapes.values():
        yield _loss(alike)
    for shape in document["shapes"]:
        if shape["hot"] and shape["hot"][0]["bytes"] >= _NOTABLE_BYTES:
            hot = first_of([f"{one['key_group']} ({one['share']:.0%})" for one in shape["hot"]], _MOST_NAMED)
            yield f"{shape['label']}: hot key groups, which no parallelism can spread: {hot} of the keyed bytes"
    few = [shape for shape in document["shapes"] if shape["few_keys"] is not None]
    if few:
        most = max(shape["few_keys"] for shape in few)
        yield (
            f"{_labels(few)}: {'at most ' if len(few) > 1 else ''}about {counted(most, 'key')}, so few that how evenly "
            "they lie is chance and says nothing yet about a shape"
        )


def _loss(alike: list[dict[str, Any]]) -> str:
    """Of operators in one shape; key groups are meant first, and then bytes, each by its name."""
    one = alike[0]
    parallelism, maximum, good = one["parallelism"], one["max_parallelism"], one["recommended"]
    asked = _candidate(one, parallelism)
    most = maximum - parallelism * asked["least_key_groups"]
    better = one["recommended_max_parallelism"]
    instead = f"; or take max parallelism {better}, a multiple of {parallelism} with many divisors" if better else ""
    return (
        f"{_labels(alike)}: {parallelism} does not divide {maximum}; {counted(most, 'subtask')} would own "
        f"{counted(asked['most_key_groups'], 'key group')} and the others {asked['least_key_groups']}, so "
        f"{one['idle']:.0%} of the capacity would wait even if all key groups held the same. As many key groups each "
        f"have {one['lower']} and {one['upper']} subtasks (recommended: {good}, with worst ÷ mean "
        f"{max(_at(shape, good) for shape in alike):.2f} of bytes){instead}"
    )


def _labels(alike: list[dict[str, Any]]) -> str:
    labels = [shape["label"] for shape in alike]
    more = f" and {counted(len(labels) - _MOST_NAMED, 'other')}" if len(labels) > _MOST_NAMED else ""
    return ", ".join(labels[:_MOST_NAMED]) + more


_LARGE_UNION = 64 * 1024 * 1024
"""Bytes of a union list state that all subtasks together get at restore, from which on it is worth a sentence."""


def union_sentences(document: dict[str, Any]) -> Iterator[str]:
    for union in document["unions"]:
        name = f"{union['label']}, state {union['state']}"
        size = (
            f"{human_bytes(union['bytes'])} go to each of {counted(union['parallelism'], 'subtask')}, "
            f"{human_bytes(union['bytes_at_restore'])} in all"
        )
        if union["repeated"]:
            yield (
                f"{name}: the subtasks wrote the same elements. If each keeps all that it gets, this union list grows "
                f"with every restore; {size}. Let each subtask keep its own part only"
            )
        elif union["bytes_at_restore"] >= _LARGE_UNION:
            yield f"{name}: a union list, {size}"


def hand_picked_sentences(document: dict[str, Any]) -> Iterator[str]:
    """Keys that stand for subtasks: what becomes of them, and what to do."""
    for found in document["hand_picked_keys"]:
        keys = _some([key["key"] for key in found["keys"]])
        surely = "the smallest that do" if found["smallest"] else f"by chance in {_percent(found['chance'])} of cases"
        yield (
            f"{found['label']}: its {counted(len(found['keys']), 'key')} ({keys}; {surely}) are one for each of "
            f"{found['parallelism']} subtasks, as if picked by hand so that keyBy addresses subtasks. " + _fate(found)
        )
        if found["idle"] or found["crowded"]:
            yield f"{found['label']}: {_ways(found)}"


def _percent(part: float) -> str:
    return f"{part:.1%}" if part >= 0.001 else "less than 0.1%"


def _fate(found: dict[str, Any]) -> str:
    if not (found["idle"] or found["crowded"]):
        return "They are good for this shape only: in another one some subtasks get several and others none"
    where = f"With {found['new_parallelism']} subtasks (max parallelism {found['new_max_parallelism']})"
    idle = f"subtasks {_some(found['idle'])} would get none" if found["idle"] else "each would get some"
    crowded = f", and {_some(found['crowded'])} several" if found["crowded"] else ""
    return f"{where} {idle}{crowded}"


def _ways(found: dict[str, Any]) -> str:
    """Those that keep the order of records."""
    table = ""
    if found["key_type"]:
        table = (
            f" ({_some(found['table'])}, as rescale virtual-keys --max-parallelism {found['new_max_parallelism']} "
            f"--parallelism {found['new_parallelism']} --key-type {found['key_type']} prints them)"
        )
    ways = (
        f"for the new shape take new keys{table}; what the old keys hold stays with them. Or keep the state as a union "
        "list, of which each subtask takes what the partitioner deals to it when it is restored. Or flush what is "
        "buffered in prepareSnapshotPreBarrier, so that there is no state to move (never in snapshotState: what is "
        "emitted there comes behind the barrier, and is lost when the job fails)"
    )
    if found["dealt"]:
        ways += f". The list state beside the keys ({', '.join(found['dealt'])}) is dealt to other subtasks than they"
    return ways


def _some(items: Sequence[object]) -> str:
    return ", ".join(map(str, items[:_MOST_LISTED])) + ("…" if len(items) > _MOST_LISTED else "")


def duration_sentences(document: dict[str, Any]) -> Iterator[str]:
    """How long the job would be down, one way and the other."""
    times = document["durations"]
    if times is None:
        return
    yield (
        "estimated, with Spark on two cores: the job is down while this run goes on, for about "
        f"{duration(times['run'])}, and while Flink restores, for about {duration(times['restore'])}"
    )
    if times["flink"] is not None:
        yield f"Flink's own rescale, without this run: the job is down for about {duration(times['flink'])}"


def sentences(document: dict[str, Any]) -> list[str]:
    """All of them, those that matter most first."""
    parts = (duration_sentences, restore_sentences, shape_sentences, hand_picked_sentences, union_sentences)
    return [sentence for part in parts for sentence in part(document)]


def insight_blocks(document: dict[str, Any]) -> list[Block]:
    """Tables, then a paragraph for each sentence."""
    tables: list[Block] = [
        *tabled(RESTORES, restores_table(document)),
        *tabled(FORMATS, formats_table(document)),
        *tabled(SHAPES, shapes_table(document)),
        *left_out(len(_telling(document)) - _MOST_SHAPES, "more operator", "more operators", reported=False),
    ]
    return [*tables, *paragraphs(cut_lines(sentences(document)))]
