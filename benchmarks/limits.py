"""Costs of commands and steps, beside the limits of the machine and Flink's State Processor API, in one run.

    python benchmarks/limits.py [--gigabytes 1] [--rounds 3] [--page] [--directory DIR]

First come whole commands, each in a new process, beside a bare Spark and the State Processor API (`whole_run`). Then
come the steps, without the start of processes: copies beside plain copies (`relocate`), another max parallelism beside
plain copies (`rehash`), RocksDB beside a bare scan (`kinds`). The last tables compare one core with two (`growth`), and
show where the CPU time of a rehash goes (`stages`). `--page` replaces the tables of the documentation
(`docs/explanation/costs.md`). The machine should be idle otherwise.
"""

from __future__ import annotations

import argparse
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

from tabulate import tabulate

import growth
import kinds
import rehash
import relocate
import stages
import whole_run
from big_databases import write_databases
from big_savepoint import write_savepoint
from processes import Cost, megabytes_in
from rescale.planning.request.result_files import Format

PAGE = Path(__file__).parents[1] / "docs" / "explanation" / "costs.md"
BEGIN, END = "<!-- made by benchmarks/limits.py -->\n", "<!-- until here -->\n"
MAXIMUM = 1000
VALUE_SIZES = {"1 KB": 1000, "100 bytes": 100}
CORES_GIGABYTES = 4.0
"""Size of the savepoint that one core and two cores rehash: smaller ones take less than a second a step."""

PROFILED_BYTES = 200_000_000
"""Bytes of the savepoints whose rehash is profiled."""

SMALLEST_PART = 0.005
"""Smallest share of a step's CPU time at which a stage is listed."""


class Step(NamedTuple):
    """Bytes and cost of a step, and its speed as a fraction of the speed of the `limit`."""

    what: str
    megabytes: float
    cost: Cost
    limit: str
    fraction_of_limit: float

    def row(self) -> tuple[str, ...]:
        speeds = (self.megabytes / self.cost.cpu, self.megabytes / self.cost.seconds)
        return (self.what, *(f"{speed:.0f}" for speed in speeds), f"{self.fraction_of_limit:.2f}", self.limit)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument(
        "--rounds", type=int, default=3, help="rounds of commands, after a first one that does not count"
    )
    parser.add_argument("--page", action="store_true", help=f"put the tables into {PAGE}")
    parser.add_argument("--directory", type=Path, help="where to work (default: the system's temporary directory)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.directory) as folder:
        home, size = Path(folder), int(arguments.gigabytes * 1e9)
        commands = commands_table(whole_run.measure(emptied(home), arguments.gigabytes, MAXIMUM, arguments.rounds))
        steps = [step.row() for step in (*copies(home, size), *other_maxima(home, size), *databases(home, size))]
        cores = cores_table(emptied(home))
        profile = profile_table(home)
    headers = (f"step, {arguments.gigabytes:g} GB, warm", "MB per CPU-second", "MB/s", "part of the limit", "the limit")
    tables = "\n\n".join((commands, table(steps, headers), cores, profile)) + "\n"
    print(tables)
    if arguments.page:
        between = re.compile(re.escape(BEGIN) + ".*?" + re.escape(END), re.DOTALL)
        text, replaced = between.subn(lambda _: f"{BEGIN}{tables}{END}", PAGE.read_text(encoding="utf-8"))
        assert replaced == 1
        PAGE.write_text(text, encoding="utf-8")


def commands_table(costs: dict[str, Cost]) -> str:
    bare, peer = costs[whole_run.BARE_SPARK], costs[whole_run.PEER]
    rows = [
        (what, f"{s:.1f} s", f"{cpu:.1f} s", f"{cpu / bare.cpu:.2f}", f"{cpu / peer.cpu:.2f}")
        for what, (s, cpu) in costs.items()
    ]
    return table(rows, ("whole command", "time", "CPU", "CPU ÷ bare Spark's", "CPU ÷ the peer's"))


def table(rows: Sequence[Sequence[str]], headers: Sequence[str]) -> str:
    return tabulate(rows, headers, tablefmt="github", disable_numparse=True)


def copies(home: Path, size: int) -> Iterator[Step]:
    source = emptied(home) / "source"
    write_savepoint(source, size)
    costs, _ = relocate.measure(str(home))
    for what, limit, times in (("relocate", "plain copy", 1), ("validate", "plain read with checksum", 2)):
        part = costs[limit].seconds / costs[what].seconds
        name = "a copy" if what == "relocate" else "a copy, validate"
        yield Step(name, times * megabytes_in(source), costs[what], f"{limit}, time", part)


def other_maxima(home: Path, size: int) -> Iterator[Step]:
    for (name, value_size), result in product(VALUE_SIZES.items(), (Format.CANONICAL, Format.ROCKSDB)):
        source = emptied(home) / "source"
        write_savepoint(source, size, value_size=value_size)
        costs, _ = rehash.measure(source, str(MAXIMUM), result)
        what = f"canonical → {result}, 128 → {MAXIMUM}, {name}"
        limit = costs["plain copy"].cpu
        for step, copies_in_limit, limit_name in (("reshuffle", 2, "two plain copies"), ("validate", 1, "plain copy")):
            part = copies_in_limit * limit / costs[step].cpu
            yield Step(f"{what}, {step}", megabytes_in(source), costs[step], limit_name, part)


def databases(home: Path, size: int) -> Iterator[Step]:
    for name, value_size in VALUE_SIZES.items():
        source = emptied(home) / "source"
        write_savepoint(home / "canonical", size, value_size=value_size)
        write_databases(home / "canonical", source)
        costs, _ = kinds.measure(source)
        limit = "bare scan"
        for step in ("read in blocks", "128 → 128, reshuffle", f"128 → {MAXIMUM}, reshuffle"):
            spent = costs[step]
            what = f"RocksDB → canonical, {step.removesuffix(', reshuffle')}, {name}"
            yield Step(what, megabytes_in(source), spent, limit, costs[limit].cpu / spent.cpu)


def cores_table(home: Path) -> str:
    """Return a table of the same rehash on one core and on two; the second of two rounds counts."""
    results = []
    for case in 2 * [case for case in growth.cases([CORES_GIGABYTES], cores=2, part=1) if case.kind == "cores"]:
        with growth.new_process() as process:
            results.append((case.cores, process.submit(growth.measure_case, case, home).result().cost))
        emptied(home)
    last_round = results[len(results) // 2 :]
    one_core = last_round[0][1].seconds
    rows = [(str(n), f"{s:.1f} s", f"{cpu:.1f} s", f"{one_core / s:.2f}") for n, (s, cpu) in last_round]
    return table(rows, (f"cores, rehash and validation of {CORES_GIGABYTES:g} GB", "time", "CPU", "times as fast"))


def profile_table(home: Path) -> str:
    """Return a table of the stages of each step, in per cent of the step's CPU time."""
    profiles = {}
    for (name, value_size), result in product(VALUE_SIZES.items(), (Format.CANONICAL, Format.ROCKSDB)):
        write_savepoint(emptied(home) / "source", PROFILED_BYTES, value_size=value_size)
        profiles[f"{result}, {name}"] = stages.measure(home / "source", result)
    rows = []
    for step, stage in product(("reshuffle", "validate"), (*stages.STAGES, stages.OTHER)):
        parts = [profile[step][stage] / profile[step].total() for profile in profiles.values()]
        if max(parts) >= SMALLEST_PART:
            rows.append((f"{step}: {stage}", *(f"{part:.0%}" for part in parts)))
    return table(rows, ("CPU time by stage", *profiles))


def emptied(home: Path) -> Path:
    """Remove the content of a folder, and return the folder."""
    shutil.rmtree(home)
    home.mkdir()
    return home


if __name__ == "__main__":
    main()
