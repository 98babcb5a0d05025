"""The trigger form: its fields, in their order.

What can be said about one value alone is its schema, which the form and the REST API refuse to break. Secrets are never
values: a connection is named.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk import Param

from rescale.flink.key_groups import UPPER_BOUND_MAX_PARALLELISM
from rescale.planning.asked.request import Files, Format
from rescale.planning.values.proof import Proof

# An answer to a wrong value shows the pattern: they are as plain as they can be. Spaces around a value do no harm.
PLACE = "^ *(/|file:/|s3://|s3a://|s3p://)"
_PLACES = "`s3://bucket/key`, or an absolute path that workers can reach"

_RANGE: dict[str, Any] = {"exclusiveMinimum": 0, "exclusiveMaximum": UPPER_BOUND_MAX_PARALLELISM + 1}

# Airflow's field for numbers makes null of `abc` and 72 of `7e2`, so it is one for text; over REST it may be a number.
# With two types Airflow would show a page for text, and take `7e2` for 700: examples make it a line (`FieldSelector`).
_NUMBER: dict[str, Any] = {"type": ["null", "string", "integer"], "pattern": "^ *([1-9][0-9]{0,4})? *$", **_RANGE}
_KEY_HASH = "^(.+=)?[^=]+$"
_RENAME = "^[^=]+=.+$"
_TOPIC = "^[a-zA-Z0-9._-]+=[a-zA-Z0-9._-]+$"
_SOURCE = "^[^=]+(=.+)?$"
_STATE = "^[^:].*:.*[^:]$"
_EMPTY_OR = "^$|"

_OPERATORS, _RESULT, _STORAGE = "Single operators", "Result and approval", "Storage"
_YEAR_MINUTES = 366 * 24 * 60

Form = dict[str, Param]


def rescale_form() -> Form:
    """The Params of a rescale, in the order of the form. What most people need has no section: it is always open."""
    of_all = {**_places(), **_shape_fields(), **_operator_fields()}
    return {**of_all, **_result_fields(), **_approval_fields(), **_storage_fields()}


def look_form() -> Form:
    """The Params of a plan that nobody carries out: what says how a run is carried out is left out."""
    form = rescale_form()
    for name in ("proof", "require_approval", "approval_minutes", "accept_unconditional_publish"):
        del form[name]
    return form


def discard_form() -> Form:
    """The Params of what removes what an unpublished run left."""
    form = rescale_form()
    target = form["target"]
    target.schema["description_md"] = f"That of a run that did not publish: {_PLACES}. What is published stays."
    return {"target": target, "connection": form["connection"]}


def _places() -> Form:
    return {
        "source": Param(
            type="string",
            pattern=PLACE,
            title="Source",
            description_md=f"The directory that Flink printed when it took the savepoint: {_PLACES}. Never modified.",
        ),
        "target": Param(
            type="string",
            pattern=PLACE,
            title="Target",
            description_md=f"A directory that does not exist yet, apart from the source: {_PLACES}.",
        ),
    }


def _shape_fields() -> Form:
    """The new shape of all operators, and access to their state."""
    return {
        "parallelism": Param(
            None,
            **_NUMBER,
            examples=["6"],
            title="Parallelism",
            description_md="For every operator whose parallelism may change, such as `6`. Empty: as it is.",
        ),
        "max_parallelism": Param(
            None,
            **_NUMBER,
            examples=["128", "256"],
            title="Max parallelism",
            description_md="The number of key groups, such as `256`, for every operator but those that always run with "
            "one subtask. Empty: as it is.",
        ),
        "same_shape": Param(
            False,
            type="boolean",
            title="Same shape: a self-contained copy",
            description_md="Instead of another shape: everything as it is, in a directory that can be moved. A run "
            "that would change nothing is refused without it.",
        ),
        "connection": Param(
            None,
            type=["null", "string"],
            title="Connection",
            description_md="The id of an Airflow connection of type aws that gives access to S3. "
            "Empty, as it must be where steps are pods: what the worker has in its own environment.",
        ),
    }


def _operator_fields() -> Form:
    """What becomes of single operators: their shapes, names, states, Kafka offsets, and how their keys hash."""
    return {
        "operators": Param(
            {},
            type=["object", "null"],
            propertyNames={"minLength": 1},
            additionalProperties={
                "type": "object",
                "properties": {name: {"type": "integer", **_RANGE} for name in ("parallelism", "max_parallelism")},
                "additionalProperties": False,
                "minProperties": 1,
            },
            title="Shape of single operators",
            section=_OPERATORS,
            description_md='By uid or operator id, such as `{"visits": {"parallelism": 4, "max_parallelism": 256}}`; '
            "one of the two is enough. They go before the numbers for all.",
        ),
        "renames": lines(
            pattern=_RENAME,
            title="Operators to rename",
            section=_OPERATORS,
            description_md="For a job whose uids have changed: lines `old=new`, each a uid or an operator id. All "
            "state of the one becomes that of the other. Everywhere else operators are named as in the source.",
        ),
        "drops": lines(
            title="Operators to drop",
            section=_OPERATORS,
            description_md="By uid or operator id, one a line: they are left out, and all of their state. The plan "
            "says what is lost, and somebody has to approve it.",
        ),
        "kafka_offsets": Param(
            None,
            type=["string", "null"],
            format="multiline",
            title="Kafka offsets",
            section=_OPERATORS,
            description_md="Where Kafka sources read on: rows of topic, partition and the offset of the next record, "
            "in CSV or JSON, as `rescale inspect --kafka-offsets csv` prints them. Instead of an offset: `earliest`, "
            "`latest`, `committed`, or `drop` to leave the partition out. What is not named stays.",
        ),
        "kafka_topics": lines(
            pattern=_TOPIC,
            title="Kafka topics to rename",
            section=_OPERATORS,
            description_md="Lines `old=new`: the offsets of the one topic are those of the other, which has the same "
            "records at the same offsets. Everywhere else topics are named as in the source.",
        ),
        "kafka_sources": lines(
            pattern=_SOURCE,
            title="Kafka consumers that become sources",
            section=_OPERATORS,
            description_md="Lines `old=new`, each a uid or an operator id, or `old` where the name stays: a "
            "`FlinkKafkaConsumer` of Flink 1.x whose offsets become those of the `KafkaSource` that reads on in its "
            "place.",
        ),
        "state_drops": lines(
            pattern=_STATE,
            title="States to drop",
            section=_OPERATORS,
            description_md="Lines `uid:name`, with a uid or an operator id: the operator stays, and this state of it "
            "is left out. The plan says what is lost, and somebody has to approve it.",
        ),
        "key_hashes": lines(
            pattern=_KEY_HASH,
            title="How keys hash",
            section=_OPERATORS,
            description_md="Only for another max parallelism, and for keys whose `hashCode` is your own: lines "
            "`objects-hash(a,b)` or `uid=objects-hash(a,b)`, or `module:function` where whoever runs Airflow allows "
            "the module. Empty: common formulas are tried.",
        ),
        "operator_names": lines(
            title="Operator names",
            section=_OPERATORS,
            description_md="Lines `uid` or `operator-id name`. Flink 1.x stores only ids; this is what to call them.",
        ),
        "without_offsets": lines(
            title="May start without their Kafka offsets",
            section=_OPERATORS,
            description_md="Names of operators, one a line. Stop-with-savepoint leaves a `FlinkKafkaConsumer` without "
            "its offsets, or with those of an earlier checkpoint: the run stops there, unless the operator is named.",
        ),
    }


def _result_fields() -> Form:
    """What the result is: the kind of its state. Whatever else there is to choose about its files belongs here."""
    return {
        "format": choice(
            {
                Format.KEEP: "keep: as in the source",
                Format.CANONICAL: "canonical: restored by every state backend but ForSt",
                Format.ROCKSDB: "rocksdb: opened by RocksDB as it is",
            },
            title="Format of the result",
            section=_RESULT,
            description_md="Canonical state is put into a backend record by record when the job starts; RocksDB's own "
            "files are only opened.",
        ),
        "files": choice(
            {
                Files.COPY: "copy: the result stands alone",
                Files.REFER: "refer: files of RocksDB stay where they are",
            },
            title="Files of RocksDB",
            section=_RESULT,
            description_md="Those that the result takes as they are. If it refers to them, the source must stay until "
            "the job has made a full checkpoint of its own, and the job must not be started in `CLAIM` mode.",
        ),
        "proof": choice(
            {
                Proof.RECORDS: "records: every record is compared",
                Proof.FILES: "files: RocksDB's files and copies within S3 as a whole, all else by records",
            },
            title="Proof",
            section=_RESULT,
            description_md="How deep the result is compared with its source. With `files`, RocksDB directories made "
            "of the source's files are compared file by file, without a look at their rows, and what was copied within "
            "S3 by the store's checksums, where it has them. The certificate says what was done, and what that does "
            "not prove.",
        ),
    }


def _approval_fields() -> Form:
    return {
        "require_approval": Param(
            False,
            type="boolean",
            title="Ask before anything moves",
            section=_RESULT,
            description_md="The run waits until somebody has read and approved the plan. Rejecting it ends the run and "
            "removes what was staged.",
        ),
        "approval_minutes": Param(
            120,
            type="number",
            exclusiveMinimum=0,
            exclusiveMaximum=_YEAR_MINUTES,
            title="Minutes to approve in",
            section=_RESULT,
            description_md="After that the plan counts as rejected.",
        ),
    }


def _storage_fields() -> Form:
    return {
        "allowed_prefixes": lines(
            pattern=PLACE,
            title="More places of state",
            section=_STORAGE,
            description_md="Files of the snapshot may also lie below these, one a line.",
        ),
        "accept_unconditional_publish": Param(
            False,
            type="boolean",
            title="Publish without put-if-absent",
            section=_STORAGE,
            description_md="For a store that does not honour it; make sure that no other run has this target.",
        ),
    }


def lines(*, pattern: str = ".", **schema: Any) -> Param:
    """A field of strings, one a line, each empty or as `pattern` says.

    The form makes null of a field that is emptied, and an empty string of every empty line.
    """
    return Param([], type=["array", "null"], items={"type": "string", "pattern": _EMPTY_OR + pattern}, **schema)


def choice(shown: Mapping[Any, str], **schema: Any) -> Param:
    """A field for one of some values, by what each is shown as; the first is its default."""
    words = {one.value: said for one, said in shown.items()}
    return Param(next(iter(words)), type="string", enum=[*words], values_display=words, **schema)
