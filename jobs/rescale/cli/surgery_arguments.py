"""What the result has otherwise than the source, as the command line has it and as a step is told."""

from __future__ import annotations

import argparse
from pathlib import Path

from rescale.cli.completion import complete_operators
from rescale.cli.text_files import read_text
from rescale.errors import RequestError
from rescale.planning.asked.kafka_words import parse_offsets
from rescale.planning.asked.surgery_words import SurgeryWords, parse_surgery


def add_surgery(parser: argparse.ArgumentParser, description: str) -> None:
    """What the result has otherwise than the source, besides its shape."""
    surgery = parser.add_argument_group("a job that has changed", description)
    rename = surgery.add_argument(
        "--rename",
        metavar="OLD=NEW",
        action="append",
        default=[],
        help="give all state of the operator OLD to NEW: uids, or operator ids of 32 hex digits (repeatable)",
    )
    complete_operators(rename)
    drop = surgery.add_argument(
        "--drop",
        metavar="UID",
        action="append",
        default=[],
        help="leave out the operator and all of its state (repeatable; uid or operator id)",
    )
    complete_operators(drop, end="")
    surgery.add_argument(
        "--kafka-offsets",
        metavar="FILE",
        help="where Kafka sources read on: rows of topic, partition and offset in CSV or JSON, as rescale inspect "
        "--kafka-offsets prints them. The offset is that of the next record, or earliest, latest or committed; drop "
        "leaves the partition out. What FILE does not name stays",
    )
    surgery.add_argument(
        "--kafka-topic",
        metavar="OLD=NEW",
        action="append",
        default=[],
        help="give the offsets of the topic OLD to NEW, which must have the same records at the same offsets "
        "(repeatable)",
    )
    source = surgery.add_argument(
        "--kafka-source",
        metavar="OLD[=NEW]",
        action="append",
        default=[],
        help="make the FlinkKafkaConsumer OLD of Flink 1.x the KafkaSource NEW, which reads on where it stood; without "
        "NEW the name stays (repeatable; uids or operator ids)",
    )
    complete_operators(source)
    state = surgery.add_argument(
        "--drop-state",
        metavar="UID:NAME",
        action="append",
        default=[],
        help="leave out one state of the operator: keyed state, timers or operator state (repeatable). Of an operator "
        "that loses keyed state all other records are written anew, at any parallelism",
    )
    complete_operators(state, end=":")


def surgery_of(arguments: argparse.Namespace) -> SurgeryWords:
    """Of `add_surgery`; `RequestError` if it makes no sense."""
    return parse_surgery(
        renames=arguments.rename,
        drops=arguments.drop,
        state_drops=arguments.drop_state,
        kafka_offsets=_read_offsets(arguments.kafka_offsets) if arguments.kafka_offsets else "",
        kafka_topics=arguments.kafka_topic,
        kafka_sources=arguments.kafka_source,
    )


def surgery_options(arguments: argparse.Namespace) -> list[str]:
    """The options of `add_surgery` and `add_allow_prefix` for a step; `RequestError` if they make no sense."""
    asked = surgery_of(arguments)
    asked.kafka.with_renames(asked.renames)
    offsets = [Path(arguments.kafka_offsets).absolute()] if arguments.kafka_offsets else []
    options = {
        "--allow-prefix": arguments.allow_prefix,
        "--rename": arguments.rename,
        "--drop": arguments.drop,
        "--drop-state": arguments.drop_state,
        "--kafka-offsets": offsets,
        "--kafka-topic": arguments.kafka_topic,
        "--kafka-source": arguments.kafka_source,
    }
    return [f"{option}={value}" for option, values in options.items() for value in values]


def _read_offsets(path: str) -> str:
    """A file of Kafka offsets that was named; `RequestError` if it makes no sense, or names no partition."""
    text = read_text(path, "Kafka offsets")
    if not parse_offsets(text):
        raise RequestError(
            "the file of Kafka offsets names no partition",
            path=path,
            expected="a row of topic, partition and offset for each partition that shall be read from elsewhere",
            advice="leave --kafka-offsets out if all shall stay as it is; rescale inspect SOURCE --kafka-offsets csv "
            "prints what is there",
        )
    return text
