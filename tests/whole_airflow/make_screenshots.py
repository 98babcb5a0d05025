"""Makes the screenshots of the DAGs: `python tests/whole_airflow/make_screenshots.py`.

It needs a JDK and Debian's chromium. The screenshots of *Rescale a savepoint* show form, question and graph of a run of
`rescale demo --ui`; those of *Rescale a running job* show a run that is aborted and one that is cut over. With the
argument `savepoint` or `job`, only the screenshots of that DAG are made.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from selenium.webdriver import Chrome

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from oracle.distribution import LINES  # noqa: E402
from rescale.airflow.live.cut_over_question import CUT_OVER, NOT_YET  # noqa: E402
from rescale.airflow.steps.earlier_tasks import ASK_CUT_OVER_TASK, FOLLOW_TASK  # noqa: E402
from rescale.demo.airflow_home import CONNECTION_ID, DAG_ID, USER, AirflowHome  # noqa: E402
from rescale.demo.s3_server import SOURCE, TARGET_BUCKET, s3_server, upload_savepoint  # noqa: E402
from rescale.demo.ui import components  # noqa: E402
from rescale.storage.locations import join  # noqa: E402
from support.browser import Pages, browser  # noqa: E402
from support.session_cluster import ROCKSDB, SessionCluster, has_checkpoint, session_cluster, wait_until  # noqa: E402

FOLDER = HERE / "screenshots"

_PATIENCE_SECONDS = 300

_CHECKPOINTS = {
    **ROCKSDB,
    "execution.checkpointing.interval": "3s",
    "execution.checkpointing.num-retained": "10",
    "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
}
_KEYS_BYTES_RATE = ("60000", "100", "200")
"""Arguments of the job `Bulk`: number of keys, bytes of a value, keys that change in a second."""


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    makers: dict[str, Callable[[AirflowHome, Chrome], None]] = {
        "savepoint": picture_savepoint_dag,
        "job": picture_job_dag,
    }
    with tempfile.TemporaryDirectory() as scratch, s3_server(Path(scratch)) as server:
        upload_savepoint()
        home = AirflowHome(Path(scratch, "airflow"), server.airflow_connection_json)
        home.migrate()
        with components(home):
            for name in sys.argv[1:] or makers:
                with browser(1100, 1420) as driver:  # a new one, because pages remember whether they show the graph
                    Pages(driver, home.url, DAG_ID).log_in(USER, home.password)
                    makers[name](home, driver)


def take_picture(driver: Chrome, name: str, width: int, height: int) -> None:
    driver.set_window_size(width, height)
    driver.save_screenshot(str(FOLDER / f"{name}.png"))


def picture_savepoint_dag(home: AirflowHome, driver: Chrome) -> None:
    pages = Pages(driver, home.url, DAG_ID)
    driver.set_window_size(1100, 1760)
    pages.open_form()
    pages.fill(source=SOURCE, target=join(TARGET_BUCKET, "clicks-6"), parallelism=6, connection=CONNECTION_ID)
    pages.switch_on("require_approval")
    take_picture(driver, "form", 1100, 1760)
    driver.set_window_size(1100, 1420)
    pages.trigger()
    run_id = pages.wait_for_the_run()
    pages.wait_for_question(_PATIENCE_SECONDS)
    pages.question_of(run_id, "approve")
    take_picture(driver, "approval", 1100, 1420)
    pages.answer("Approve")
    pages.open_run(run_id)
    pages.wait_for_state("Success", _PATIENCE_SECONDS)
    driver.set_window_size(1500, 760)
    pages.show_graph()
    take_picture(driver, "graph", 1500, 760)


def picture_job_dag(home: AirflowHome, driver: Chrome) -> None:
    pages = Pages(driver, home.url, "rescale_job")
    with tempfile.TemporaryDirectory(prefix="state-") as state:
        checkpoints = {"state.checkpoints.dir": Path(state, "checkpoints").as_uri()}
        with session_cluster(list(LINES.values())[-1], **_CHECKPOINTS, **checkpoints) as cluster:
            _abort(pages, cluster, f"{state}/bulk-3")
            _cut_over(pages, cluster, f"{state}/bulk-4")


def _abort(pages: Pages, cluster: SessionCluster, target: str) -> None:
    """Follow a job, put off its cut-over, and abort the run."""
    job_id = _start(cluster)
    _fill(pages, cluster, job_id, target, parallelism=3)
    take_picture(pages.driver, "live-form", 1100, 1760)
    run_id = _trigger(pages)
    _take_picture_of_log(pages, "live-rounds", run_id, FOLLOW_TASK, "round 1")
    _answer(pages, run_id, NOT_YET)
    _take_picture_of_log(pages, "live-not-yet", run_id, ASK_CUT_OVER_TASK, "not yet")
    pages.open_run(run_id)
    pages.mark_as_failed()
    pages.wait_for_state("Failed", _PATIENCE_SECONDS)
    _take_picture_of_log(pages, "live-aborted", run_id, "end", "still runs")
    assert cluster.job(job_id).runs
    cluster.clear()


def _cut_over(pages: Pages, cluster: SessionCluster, target: str) -> None:
    _fill(pages, cluster, _start(cluster), target, parallelism=4)
    run_id = _trigger(pages)
    _answer(pages, run_id, CUT_OVER, "live-question")
    pages.open_run(run_id)
    pages.wait_for_state("Success", _PATIENCE_SECONDS)
    _take_picture_of_log(pages, "live-cut-over", run_id, FOLLOW_TASK, "stood still")


def _start(cluster: SessionCluster) -> str:
    """Start a job, and return its id as soon as it has a checkpoint."""
    job_id = cluster.run(2, *_KEYS_BYTES_RATE, main="Bulk")
    wait_until(lambda: has_checkpoint(cluster, job_id), "a checkpoint")
    return job_id


def _fill(pages: Pages, cluster: SessionCluster, job_id: str, target: str, parallelism: int) -> None:
    pages.driver.set_window_size(1100, 2600)
    pages.open_form()
    pages.fill(flink=cluster.address, job=job_id, jar="counts.jar", target=target)
    pages.choose("taking", "checkpoint")
    pages.fill(parallelism=parallelism, max_parallelism=256)
    pages.open_section("Starting it again")
    pages.fill(entry_class="Bulk", arguments="\n".join(_KEYS_BYTES_RATE))
    pages.open_section("While it runs")
    pages.switch_on("while_it_runs")
    pages.choose("cut_over", "when approved")


def _trigger(pages: Pages) -> str:
    pages.trigger()
    return pages.wait_for_the_run()


def _take_picture_of_log(pages: Pages, name: str, run_id: str, task_id: str, text: str) -> None:
    """Take a picture of the end of a task's log once a line has `text`; a page only holds the lines in sight."""
    pages.driver.set_window_size(1200, 2600)
    pages.log_of(run_id, task_id, text)
    pages.driver.set_window_size(1200, 760)
    pages.show_end_of_log()
    take_picture(pages.driver, name, 1200, 760)


def _answer(pages: Pages, run_id: str, option: str, shown: str | None = None) -> None:
    """Answer the question whether to cut over; with `shown`, take a picture of that name of the question."""
    pages.open_run(run_id)
    pages.wait_for_question(_PATIENCE_SECONDS)
    pages.question_of(run_id, ASK_CUT_OVER_TASK)
    if shown is not None:
        take_picture(pages.driver, shown, 1100, 1000)
    pages.answer(option)


if __name__ == "__main__":
    main()
