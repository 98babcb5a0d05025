"""Files of Kafka offsets that somebody edited, in CSV or JSON."""

from __future__ import annotations

from collections.abc import Iterator

from fuzzing.subject import Subject
from rescale.planning.request.kafka_offsets import parse_offsets
from rescale.text.errors import RequestError

_ROWS = (
    "operator,topic,partition,offset\nsource,clicks,0,17\n,clicks,*,earliest\n",
    'topic,partition,offset\n"clicks",3,drop\n',
    '[{"operator": "source", "topic": "clicks", "partition": 0, "offset": 17}]',
    '[{"topic": "clicks", "partition": "*", "offset": "latest"}, {"topic": "b", "partition": 1, "offset": "drop"}]',
)


def _seeds() -> Iterator[bytes]:
    yield from (rows.encode() for rows in _ROWS)


def _look(data: bytes) -> None:
    rows = parse_offsets(data.decode(errors="replace"))
    assert len({row._replace(offset=None) for row in rows}) == len(rows)
    assert all(row.partition is None or row.partition >= 0 for row in rows)


SUBJECT = Subject(_seeds, _look, (RequestError,))
