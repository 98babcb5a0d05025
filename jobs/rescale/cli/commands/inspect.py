"""`rescale inspect`: what is in a snapshot."""

from __future__ import annotations

import argparse

from rescale.cli.arguments import add_for_flink, add_source, add_uids, prefixes_of, release_line_of, uids_of
from rescale.cli.output import Output
from rescale.cli.terminal import waiting
from rescale.errors import RequestError
from rescale.names import printable_lines
from rescale.planning.asked.kafka_words import FORMS, offsets_text
from rescale.report.pages.inspection import inspection, inspection_text
from rescale.snapshot.kafka.offsets import kafka_offsets
from rescale.snapshot.opening import open_snapshot
from rescale.storage.locations import normalise

SUMMARY = "what is in a snapshot"
DESCRIPTION = (
    "Shows kind, operators, states, sizes and oddities of a snapshot. Reads _metadata, headers, indexes of RocksDB "
    "files, the offsets of Kafka sources, and few bytes more."
    "\n\n"
    "With --for-flink it also says, by operator and state, whether that release of Flink restores it, and why not. "
    "Kryo changed its format with Flink 2, which reads other values without an error; POJOs with lists, maps or sets "
    "got other serializers; classes of the Scala API and of old sinks are gone; and an older Flink does not read the "
    "_metadata of a newer one. And what to do: what the job has to rewrite first, and what can be dropped. What the "
    "bytes do not tell is unknown, and never yes."
)
EXAMPLE = "rescale inspect s3://flink/savepoint-1a2b --for-flink 2.3"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_source(parser)
    add_uids(parser)
    add_for_flink(parser)
    parser.add_argument(
        "--kafka-offsets",
        choices=FORMS,
        help="print the offsets of the Kafka sources instead, each partition a row, as plan, run, validate and diff "
        "take them by --kafka-offsets FILE: write them to a file, change what shall be otherwise, leave out what stays "
        "(with --output json: json alone)",
    )


def execute(arguments: argparse.Namespace, output: Output) -> None:
    if output.json and arguments.kafka_offsets not in (None, "json"):
        raise RequestError(
            "the answer was asked for in two forms",
            found=f"--kafka-offsets {arguments.kafka_offsets} and --output json",
            advice="leave --output json out, or say --kafka-offsets json; without --kafka-offsets the offsets are in "
            "the document, under kafka",
        )
    with waiting(f"reading {arguments.source}"):
        snapshot = open_snapshot(normalise(arguments.source), prefixes_of(arguments), uids_of(arguments))
        kafka = kafka_offsets(snapshot)
        if arguments.kafka_offsets:
            print(printable_lines(offsets_text(kafka, arguments.kafka_offsets)))
            return
        document = inspection(snapshot, kafka, release_line_of(arguments))
    output.answer(document, lambda: inspection_text(document))
