"""`rescale demo`: a run of the DAG that prints what it does, and the state by subtask before and after."""

from __future__ import annotations

import json
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Callable

from tabulate import tabulate

from rescale.demo.airflow_home import CONNECTION_ID, DAG_ID, AirflowHome
from rescale.demo.flink import restore_in_flink
from rescale.demo.processes import demo_folder, interrupted_once, process_error, running
from rescale.demo.s3_server import SOURCE, TARGET_BUCKET, s3_server, upload_savepoint
from rescale.runstate.certificate import read_certificate
from rescale.runstate.places import certificate_place
from rescale.snapshot.keyed_state import KeyedStream
from rescale.snapshot.model import ElementStream, Operator, Snapshot
from rescale.snapshot.reading.opening import open_snapshot
from rescale.storage.locations import join
from rescale.text.units import counted, human_bytes

PARALLELISM = 6
"""New parallelism; the savepoint has 4."""

_LINE_WIDTH = 110

PrintLine = Callable[[str], None]


def demo(say: PrintLine, *, with_flink: bool) -> None:
    """Run the demo and print its progress with `say`; `with_flink` also restores source and result in Flink."""
    start_time = time.monotonic()
    target = join(TARGET_BUCKET, f"clicks-{PARALLELISM}")
    with interrupted_once() as ignore_interruptions, demo_folder() as folder:
        say("Starting an S3 server on this machine …")
        with s3_server(folder) as server:
            upload_savepoint()
            say(f"  {SOURCE} is a savepoint that Flink 2.3 took of a running job")
            say("Creating an Airflow for the demo (SQLite, in a temporary folder) …")
            home = AirflowHome(folder / "airflow", server.airflow_connection_json)
            home.migrate()
            say(f"Running the DAG {DAG_ID}: parallelism 4 → {PARALLELISM} …")
            _run_dag(home, target)
            _show_result(say, target)
            if with_flink:
                restore_in_flink(say, SOURCE, target, PARALLELISM, folder)
            ignore_interruptions()
            say("Stopping everything that the demo started …")
    say(f"Done, in {time.monotonic() - start_time:.0f} s. To fill in the form in a browser: rescale demo --ui")


def _run_dag(home: AirflowHome, target: str) -> None:
    conf = {"source": SOURCE, "target": target, "parallelism": PARALLELISM, "connection": CONNECTION_ID}
    log = home.folder / "run.log"
    command = [sys.executable, "-m", "rescale.demo.dag_run", str(log), json.dumps(conf)]
    with running(command, home.environment, log=None) as process:
        try:
            exit_code = process.wait()
        except BaseException:
            # SIGTERM would not end the process: Airflow's handler only calls the task's `on_kill`. Processes that tasks
            # have started end with this process.
            process.kill()
            raise
        if exit_code:
            raise process_error("the run of the DAG failed", log)


def _show_result(say: PrintLine, target: str) -> None:
    certificate = read_certificate(target)
    operators_text = counted(len(certificate.operators), "operator")
    say("")
    say(_before_and_after(open_snapshot(SOURCE), open_snapshot(target)))
    say("")
    say(f"verdict:       {certificate.verdict}: {operators_text}, {human_bytes(certificate.bytes)} compared")
    say(textwrap.fill(f"proves:        {certificate.proves}", _LINE_WIDTH, subsequent_indent=" " * 15))
    say(f"certificate:   {certificate_place(target)}")
    say(f"result:        {target}")
    say(f"start the job: {certificate.start}")
    say("")


def _before_and_after(before: Snapshot, after: Snapshot) -> str:
    """Return a table of all operators with state, with a row for each old or new subtask."""
    new_operator_by_id = {operator.operator_id: operator for operator in after.operators}
    rows = []
    for old in before.operators:
        new = new_operator_by_id[old.operator_id]
        if not old.bytes:
            continue
        for subtask in range(max(old.parallelism, new.parallelism)):
            label = old.label if subtask == 0 else ""
            rows.append((label, subtask, _state_text(old, subtask), _state_text(new, subtask)))
    return tabulate(rows, headers=("operator", "subtask", "before", "after"), disable_numparse=True)


def _state_text(operator: Operator, subtask: int) -> str:
    if subtask >= operator.parallelism:
        return "-"
    parts = [_keys_text(s) for s in (*operator.keyed, *operator.raw_keyed) if s.subtask == subtask]
    parts += [
        _elements_text(s) for s in (*operator.element_streams, *operator.raw_element_streams) if s.subtask == subtask
    ]
    return "; ".join(parts)


def _keys_text(stream: KeyedStream) -> str:
    key_groups = stream.key_groups
    return f"key groups {key_groups.first}-{key_groups.last}, {human_bytes(stream.extent.length)}"


def _elements_text(stream: ElementStream) -> str:
    """Return the number of elements by distribution mode, such as `3 split, 4 union elements`."""
    counts = Counter(state.mode.name.partition("_")[0].lower() for state in stream.states for _ in state.elements)
    if len(counts) == 1:
        ((mode, count),) = counts.items()
        return counted(count, f"{mode} element")
    return ", ".join(f"{count} {mode}" for mode, count in counts.items()) + " elements"
