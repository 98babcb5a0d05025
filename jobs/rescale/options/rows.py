"""The table of options of a request. A new option needs a row here, and a line in `planning.request`."""

from __future__ import annotations

from rescale.options.option import Field, FormSection, HelpGroup, Option, OptionKind
from rescale.plan.proof import Proof
from rescale.planning.request.result_files import Files, Format

PLACE_PATTERN = "^ *(/|file:/|s3://|s3a://|s3p://)"
"""Pattern of the URI of a snapshot or directory: a simple one, because Airflow shows it in the error for a wrong value.
"""

_PLAN_COMMANDS = ("plan", "run")
_COMPARE_COMMANDS = ("validate", "diff")

OPTIONS = (
    Option(
        "parallelism",
        OptionKind.LINES,
        "the new parallelism: N for every operator whose parallelism may change, UID=N for a single one (repeatable; "
        "uid or operator id)",
        (*_PLAN_COMMANDS, "follow"),
        Field(
            "parallelism",
            "Parallelism",
            "The new parallelism of every operator whose parallelism may change, such as `6`. Empty: unchanged.",
            FormSection.OPEN,
            is_number=True,
            examples=("6",),
        ),
        "--parallelism 6",
        metavar="[UID=]N",
        group=HelpGroup.SHAPE,
        operator_separator="=",
        changes_result=True,
    ),
    Option(
        "max-parallelism",
        OptionKind.LINES,
        "the new max parallelism (number of key groups): M for every operator except those with max parallelism 1, "
        "UID=M for a single operator (repeatable). A divisor of the old one works for every type of key; any other "
        "number needs the hash of the keys",
        (*_PLAN_COMMANDS, "follow"),
        Field(
            "max_parallelism",
            "Max parallelism",
            "The new number of key groups, such as `256`, of every operator except those with max parallelism 1. "
            "Empty: unchanged.",
            FormSection.OPEN,
            is_number=True,
            examples=("128", "256"),
        ),
        "--max-parallelism 256",
        metavar="[UID=]M",
        group=HelpGroup.SHAPE,
        operator_separator="=",
        changes_result=True,
    ),
    Option(
        "key-hash",
        OptionKind.LINES,
        "the hash of keys with a hashCode of your own: a formula such as 'objects-hash(a,b)'; or module:function, "
        "which returns 32 bits for a key's bytes, and is installed where Spark runs (repeatable). Every record is "
        "checked against it. Without it, common formulas are tried",
        (*_PLAN_COMMANDS, "follow", "validate"),
        Field(
            "key_hashes",
            "How keys hash",
            "Only for another max parallelism, and for keys with your own `hashCode`: lines `objects-hash(a,b)`, "
            "`uid=objects-hash(a,b)`, or `module:function` if Airflow's administrator allows the module. Empty: common "
            "formulas are tried.",
            FormSection.OPERATORS,
            pattern="^(.+=)?[^=]+$",
        ),
        "--key-hash 'objects-hash(a,b)'",
        metavar="[UID=]HASH",
        group=HelpGroup.SHAPE,
        operator_separator="=",
    ),
    Option(
        "rename",
        OptionKind.LINES,
        "give all state of the operator OLD to the operator NEW: uids, or operator ids of 32 hex digits (repeatable)",
        (*_PLAN_COMMANDS, *_COMPARE_COMMANDS),
        Field(
            "renames",
            "Operators to rename",
            "For a job whose uids have changed: lines `old=new`, with uids or operator ids. Operator `new` gets all "
            "state of `old`. All other fields name operators as in the source.",
            FormSection.CHANGED_JOB,
            pattern="^[^=]+=.+$",
        ),
        "--rename visits=visitors",
        metavar="OLD=NEW",
        group=HelpGroup.CHANGED_JOB,
        operator_separator="=",
        changes_result=True,
    ),
    Option(
        "drop",
        OptionKind.LINES,
        "leave out the operator and all of its state (repeatable; uid or operator id)",
        (*_PLAN_COMMANDS, *_COMPARE_COMMANDS),
        Field(
            "drops",
            "Operators to drop",
            "Operators to leave out with all of their state, by uid or operator id, one per line. The plan lists what "
            "is lost. It must be approved.",
            FormSection.CHANGED_JOB,
        ),
        "--drop visits",
        metavar="UID",
        group=HelpGroup.CHANGED_JOB,
        operator_separator="",
        changes_result=True,
    ),
    Option(
        "drop-state",
        OptionKind.LINES,
        "leave out one state of the operator: keyed state, timers or operator state (repeatable). If an operator loses "
        "keyed state, its other records are rewritten, whatever the parallelism",
        (*_PLAN_COMMANDS, *_COMPARE_COMMANDS),
        Field(
            "state_drops",
            "States to drop",
            "Lines `uid:name`, with a uid or an operator id: the operator loses this state. The plan lists what is "
            "lost. It must be approved.",
            FormSection.CHANGED_JOB,
            pattern="^[^:].*:.*[^:]$",
        ),
        "--drop-state visits:count",
        metavar="UID:NAME",
        group=HelpGroup.CHANGED_JOB,
        operator_separator=":",
        changes_result=True,
    ),
    Option(
        "drop-older",
        OptionKind.LINES,
        "leave out rows of a keyed state with a TTL whose last access is older than AGE: 30d, 12h, 90min or 45s before "
        "the snapshot was written, or a time such as 2026-10-01T00:00:00Z (repeatable). The operator's other records "
        "are rewritten, whatever the parallelism",
        (*_PLAN_COMMANDS, *_COMPARE_COMMANDS),
        Field(
            "old_rows",
            "Old rows to drop",
            "Lines `uid:state=age` for keyed states with a TTL: rows whose last access is older than `30d`, `12h` or "
            "`90min` before the snapshot was written, or than a time such as `2026-10-01T00:00:00Z`, are left out. "
            "The plan must be approved.",
            FormSection.CHANGED_JOB,
            pattern="^.*[^:].*:.*=.*[^=]$",
        ),
        "--drop-older visits:last=30d",
        metavar="UID:STATE=AGE",
        group=HelpGroup.CHANGED_JOB,
        operator_separator=":",
        changes_result=True,
    ),
    Option(
        "restart",
        OptionKind.LINES,
        "run the finished subtasks of the operator again, so that its parallelism can change (repeatable; uid or "
        "operator id). A source whose coordinator assigns its splits gets the splits that no subtask has finished; any "
        "other source reads its input again",
        (*_PLAN_COMMANDS, *_COMPARE_COMMANDS),
        Field(
            "restarts",
            "Operators to restart",
            "Operators with finished subtasks, by uid or operator id, one per line: these subtasks run again, in any "
            "parallelism. The plan says what is read again. It must be approved.",
            FormSection.CHANGED_JOB,
        ),
        "--restart readers",
        metavar="UID",
        group=HelpGroup.CHANGED_JOB,
        operator_separator="",
        changes_result=True,
    ),
    Option(
        "uids",
        OptionKind.FILE,
        "a file with lines `uid` or `operator-id name`: names of operators for a snapshot that has only their ids",
        ("inspect", "match", *_PLAN_COMMANDS, "follow", "report"),
        Field(
            "operator_names",
            "Operator names",
            "Lines `uid` or `operator-id name`: names of operators. Flink 1.x stores only their ids.",
            FormSection.CHANGED_JOB,
        ),
        "--uids uids.txt",
        metavar="FILE",
        file_noun="list of uids",
    ),
    Option(
        "kafka-offsets",
        OptionKind.FILE,
        "new offsets of Kafka sources: rows of topic, partition and offset in CSV or JSON, as rescale inspect "
        "--kafka-offsets prints them. The offset is that of the next record, or earliest, latest or committed; drop "
        "leaves the partition out. Partitions that FILE does not name keep their offsets",
        (*_PLAN_COMMANDS, *_COMPARE_COMMANDS),
        Field(
            "kafka_offsets",
            "Kafka offsets",
            "New offsets of Kafka sources: rows of topic, partition and the offset of the next record, in CSV (first "
            "line `topic,partition,offset`) or JSON. Instead of an offset: `earliest`, `latest`, `committed`, or "
            "`drop` to leave the partition out. Other partitions keep their offsets.",
            FormSection.KAFKA,
            is_text=True,
        ),
        "--kafka-offsets offsets.csv",
        metavar="FILE",
        group=HelpGroup.CHANGED_JOB,
        file_noun="Kafka offsets",
        changes_result=True,
    ),
    Option(
        "kafka-topic",
        OptionKind.LINES,
        "give the offsets of the topic OLD to the topic NEW, which must have the same records at the same offsets "
        "(repeatable)",
        (*_PLAN_COMMANDS, *_COMPARE_COMMANDS),
        Field(
            "kafka_topics",
            "Kafka topics to rename",
            "Lines `old=new`: the topic `new` gets the offsets of `old`, and must have the same records at the same "
            "offsets. All other fields name topics as in the source.",
            FormSection.KAFKA,
            pattern="^[a-zA-Z0-9._-]+=[a-zA-Z0-9._-]+$",
        ),
        "--kafka-topic orders=orders-v2",
        metavar="OLD=NEW",
        group=HelpGroup.CHANGED_JOB,
        changes_result=True,
    ),
    Option(
        "kafka-source",
        OptionKind.LINES,
        "convert the FlinkKafkaConsumer OLD of Flink 1.x into the KafkaSource NEW with the same offsets; without NEW "
        "the name stays (repeatable; uids or operator ids)",
        (*_PLAN_COMMANDS, *_COMPARE_COMMANDS),
        Field(
            "kafka_sources",
            "Kafka consumers that become sources",
            "One `old=new` per line (uids or operator ids): the `KafkaSource` called `new` gets the offsets of the "
            "Flink 1.x `FlinkKafkaConsumer` called `old`. Write only `old` if the name stays.",
            FormSection.KAFKA,
            pattern="^[^=]+(=.+)?$",
        ),
        "--kafka-source orders",
        metavar="OLD[=NEW]",
        group=HelpGroup.CHANGED_JOB,
        operator_separator="=",
        changes_result=True,
    ),
    Option(
        "format",
        OptionKind.CHOICE,
        "the format of keyed state in the result. keep: as in the source. canonical: every state backend except ForSt "
        "restores it, record by record. rocksdb: RocksDB opens it without a conversion",
        _PLAN_COMMANDS,
        Field(
            "format",
            "Format of the result",
            "When the job starts, its backend reads canonical state record by record. RocksDB opens its own files "
            "without a conversion.",
            FormSection.RESULT,
        ),
        "--format canonical",
        group=HelpGroup.SHAPE,
        choices={
            Format.KEEP.value: "keep: as in the source",
            Format.CANONICAL.value: "canonical: for every state backend except ForSt",
            Format.ROCKSDB.value: "rocksdb: RocksDB's own files",
        },
        changes_result=True,
    ),
    Option(
        "files",
        OptionKind.CHOICE,
        "RocksDB's files that the result contains unchanged. copy: copy them. refer: refer to the files of the source, "
        "which must be kept until the job has made a full checkpoint of its own",
        _PLAN_COMMANDS,
        Field(
            "files",
            "Files of RocksDB",
            "The RocksDB files that the result contains unchanged. If it refers to them, the source must be kept until "
            "the job has made a full checkpoint of its own, and the job must not be started in `CLAIM` mode.",
            FormSection.RESULT,
        ),
        "--files refer",
        group=HelpGroup.SHAPE,
        choices={
            Files.COPY.value: "copy: the result does not need the source",
            Files.REFER.value: "refer: the result uses files of the source",
        },
    ),
    Option(
        "proof",
        OptionKind.CHOICE,
        "depth of the comparison of the result with its source. records: compare every record. files: compare RocksDB "
        "directories made of the source's files file by file, without reading rows; compare key groups that S3 copied "
        "by the store's checksums; compare everything else by records. changes, only for a run with --base: compare "
        "the changed rows. The certificate says what was compared",
        ("run", "validate"),
        Field(
            "proof",
            "Proof",
            "Depth of the comparison of the result with its source. With `files`, RocksDB directories made of the "
            "source's files are compared file by file, without reading rows. Key groups that S3 copied are compared by "
            "the store's checksums, if it has any. The certificate says what was compared, and what that does not "
            "prove.",
            FormSection.RESULT,
        ),
        "--proof files",
        choices={
            Proof.RECORDS.value: "records: compare every record",
            Proof.FILES.value: "files: compare RocksDB's files and copies within S3 as a whole, all else by records",
            Proof.CHANGES.value: "",
        },
    ),
    Option(
        "allow-prefix",
        OptionKind.LINES,
        "also read files of the snapshot below URI (repeatable)",
        ("inspect", "match", *_PLAN_COMMANDS, "follow", *_COMPARE_COMMANDS, "report"),
        Field(
            "allowed_prefixes",
            "More places of state",
            "Directories, one per line, in which files of the snapshot may also be.",
            FormSection.STORAGE,
            pattern=PLACE_PATTERN,
        ),
        "--allow-prefix s3://flink/shared",
        metavar="URI",
    ),
    Option(
        "moved",
        OptionKind.LINES,
        "read from the directory NEW the files that the snapshot expects in the directory OLD (repeatable). Not needed "
        "for files that moved with SOURCE, or with its job's directory, unless they still exist in OLD",
        ("inspect", "match", *_PLAN_COMMANDS, *_COMPARE_COMMANDS, "report"),
        Field(
            "moved",
            "Moved files",
            "Lines `OLD=NEW`: files that the snapshot expects in the directory `OLD` are read from `NEW`. Not needed "
            "for files that moved with the source, or with its job's directory, unless they still exist in `OLD`.",
            FormSection.STORAGE,
            pattern=r"^\s*\S.*=.*\S\s*$",
        ),
        "--moved s3://old/state=s3://new/state",
        metavar="OLD=NEW",
    ),
    Option(
        "accept-unconditional-publish",
        OptionKind.FLAG,
        "publish to a store that does not support put-if-absent; make sure that no other run has this target",
        ("run", "follow"),
        Field(
            "accept_unconditional_publish",
            "Publish without put-if-absent",
            "For a store that does not support put-if-absent; make sure that no other run has this target.",
            FormSection.STORAGE,
        ),
        "--accept-unconditional-publish",
    ),
)
"""The options of a request, in the order of their sections in the form."""


ROUND_OPTION_NAMES = ("parallelism", "max-parallelism", "key-hash", "uids", "allow-prefix")
"""Names of the options that a follower keeps for all of its rounds."""


def option(name: str) -> Option:
    """Return the row with this name. Raises `KeyError` for an unknown name."""
    return _OPTION_BY_NAME[name]


_OPTION_BY_NAME = {row.name: row for row in OPTIONS}
