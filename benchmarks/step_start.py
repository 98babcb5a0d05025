"""How long a step takes in Spark when it has hardly any state, beside a bare `spark-submit`.

    python benchmarks/step_start.py [--master local-cluster[1,1,1024]] [--rounds 3]

The step reshuffles the keyed state of the demo's savepoint, in executors. The bare job is one Python task that does
nothing. Both begin with `spark-submit`, as the driver's pod does. They take turns in every round. The table shows
medians without the first round.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tabulate import tabulate

import rescale.demo
from processes import Cost, cost_of_command, median_cost
from rescale.planning.prepare import prepare
from rescale.planning.request.request import make_request
from rescale.runstate.claim import claim
from rescale.runstate.places import places_of

JOBS = Path(__file__).parents[1] / "jobs"
BARE_JOB = """
from pyspark import SparkContext
context = SparkContext()
assert context.parallelize([1], 1).map(lambda number: number + 1).collect() == [2]
context.stop()
"""
BARE, STEP = "spark-submit, one empty Python task", "spark-submit, a step of the demo's savepoint"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--master", default="local-cluster[1,1,1024]", help="Spark's master (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds, after a first one that does not count")
    arguments = parser.parse_args()
    program = Path(sys.executable).with_name("spark-submit")
    submit = ["env", f"PYSPARK_PYTHON={sys.executable}", str(program), "--master", arguments.master]
    costs: dict[str, list[Cost]] = {BARE: [], STEP: []}
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "bare.py").write_text(BARE_JOB)
        for number in range(1 + arguments.rounds):
            commands = {BARE: [str(home / "bare.py")], STEP: step_command(home / f"target-{number}")}
            for what, command in commands.items():
                spent = cost_of_command([*submit, *command])
                if number:
                    costs[what].append(spent)
    bare, step = median_cost(costs[BARE]), median_cost(costs[STEP])
    rows = [(what, f"{seconds:.1f} s", f"{cpu:.1f} s") for what, (seconds, cpu) in ((BARE, bare), (STEP, step))]
    print(tabulate(rows, headers=("median", "time", "CPU"), disable_numparse=True))
    print(f"a step ÷ bare: {step.seconds / bare.seconds:.2f}")


def step_command(target: Path) -> list[str]:
    """Claim a new target for a rescale of the demo's savepoint; return the command of the first step."""
    source = Path(rescale.demo.__file__).parent / "savepoint"
    plan = prepare(make_request(str(source), str(target), ["3"], max_parallelism=["1000"])).plan
    claim(plan)
    return [str(JOBS / "reshuffle_keyed_state.py"), "--plan", places_of(plan).plan, "--result", f"{target}.json"]


if __name__ == "__main__":
    main()
