"""`rescale inspect`: show the contents of a snapshot."""

from __future__ import annotations

import argparse

from rescale.cli.arguments import (
    add_for_flink,
    add_request_options,
    add_source,
    given_uids,
    moves_of,
    prefixes_of,
    release_line_of,
)
from rescale.cli.output import Output, print_answer
from rescale.cli.terminal import waiting
from rescale.options.profiles import add_profiles
from rescale.planning.request.kafka_offsets import OFFSET_FILE_FORMS, offsets_text
from rescale.report.pages.inspection import inspection, inspection_page
from rescale.snapshot.kafka.offsets import kafka_offsets
from rescale.snapshot.reading.opening import open_readable
from rescale.storage.locations import normalise
from rescale.text.errors import RequestError
from rescale.text.names import printable_lines

SUMMARY = "show the contents of a snapshot"
DESCRIPTION = (
    "Shows kind, operators, states, sizes and warnings of a snapshot. Reads only _metadata, headers, the indexes of "
    "RocksDB files, and the offsets of Kafka sources. If the state of an operator cannot be read, the rest is shown, "
    "and the exit code is that of the error."
    "\n\n"
    "With --for-flink it also shows, by operator and state, whether that release of Flink restores it, and if not, why "
    "and what to do: what the job must write in another form first, and what can be dropped. Among the reasons: Flink "
    "2 has a new format of Kryo, and reads wrong values from the old one without error; POJOs with lists, maps or sets "
    "have new serializers; classes of the Scala API and of old sinks were removed; and an older Flink does not read "
    "the _metadata of a newer one. If the snapshot does not show whether Flink restores a state, the answer is "
    "unknown, never yes."
)
EXAMPLE = "rescale inspect s3://flink/savepoint-1a2b --for-flink 2.3"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_source(parser)
    add_request_options(parser, "inspect")
    add_for_flink(parser)
    add_profiles(parser, "source")
    parser.add_argument(
        "--kafka-offsets",
        choices=OFFSET_FILE_FORMS,
        help="print only the offsets of the Kafka sources, one row per partition. plan, run, validate and diff read "
        "such rows with --kafka-offsets FILE: write them to a file, change the rows that should differ, and delete the "
        "others. With --output json, only the format json is possible",
    )


def execute(arguments: argparse.Namespace, output: Output) -> int:
    if output.is_json and arguments.kafka_offsets not in (None, "json"):
        raise RequestError(
            "the options ask for two output formats",
            found=f"--kafka-offsets {arguments.kafka_offsets} and --output json",
            advice="leave --output json out, or use --kafka-offsets json; without --kafka-offsets, the JSON document "
            "has the offsets under kafka",
        )
    with waiting(f"reading {arguments.source}"):
        snapshot = open_readable(
            normalise(arguments.source), prefixes_of(arguments), given_uids(arguments), moves=moves_of(arguments)
        )
        source_offsets = kafka_offsets(snapshot)
        if arguments.kafka_offsets:
            print_answer(printable_lines(offsets_text(source_offsets, arguments.kafka_offsets)))
            return 0
        document = inspection(snapshot, source_offsets, release_line_of(arguments))
    output.answer_page(document, inspection_page)
    read_error = next((operator.read_error for operator in snapshot.operators if operator.read_error is not None), None)
    if read_error is None:
        return 0
    if output.is_json:  # the document contains the errors of all operators
        return read_error.exit_code
    raise read_error
