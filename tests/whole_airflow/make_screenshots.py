"""Make the pictures of the DAGs: `python tests/whole_airflow/make_screenshots.py`, with a JDK and Debian's chromium.

They show what `rescale demo --ui` starts: the trigger form, filled in, the question about the plan, and the graph of
the run after the answer.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from rescale.demo.airflow_home import CONNECTION_ID, DAG_ID, USER, AirflowHome  # noqa: E402
from rescale.demo.s3_server import SOURCE, TARGETS, s3_server, upload_savepoint  # noqa: E402
from rescale.demo.ui import components  # noqa: E402
from rescale.storage.locations import join  # noqa: E402
from support.browser import Pages, browser  # noqa: E402


def main() -> None:
    folder = HERE / "screenshots"
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, s3_server(Path(scratch)) as server:
        upload_savepoint()
        home = AirflowHome(Path(scratch, "airflow"), server.connection)
        home.migrate()
        with components(home), browser(1100, 1420) as driver:
            pages = Pages(driver, home.url, DAG_ID)
            pages.log_in(USER, home.password)
            driver.set_window_size(1100, 1760)
            pages.open_form()
            pages.fill(source=SOURCE, target=join(TARGETS, "clicks-6"), parallelism=6, connection=CONNECTION_ID)
            pages.switch_on("require_approval")
            driver.save_screenshot(str(folder / "form.png"))
            driver.set_window_size(1100, 1420)
            pages.trigger()
            run_id = pages.wait_for_the_run()
            pages.wait_for_question(300)
            pages.question_of(run_id, "approve")
            driver.save_screenshot(str(folder / "approval.png"))
            pages.answer("Approve")
            pages.open_run(run_id)
            pages.wait_for_state("Success", 300)
            driver.set_window_size(1500, 760)
            pages.show_graph()
            driver.save_screenshot(str(folder / "graph.png"))


if __name__ == "__main__":
    main()
