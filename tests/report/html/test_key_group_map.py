"""The key-group map and the matrix of moves as SVG."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from rescale.report.figures import KeyGroupMap, Mark, Matrix, Ribbon, Share, Strip
from rescale.report.html.key_group_map import key_group_map, matrix
from rescale.report.html.png import shades_uri

BEFORE = Strip(
    "before: 2 subtasks",
    (Share(0, 0.99, "0", "subtask 0"), Share(0.99, 1, "1", "subtask 1")),
    (0, 255),
    (Share(0, 0.5, "", "key group 0"), Share(0.5, 1, "", "key group 1")),
    (),
)
AFTER = Strip("after: 1 subtask", (Share(0, 1, "0", "new subtask 0"),), (9, 9), (), (Mark(0.25, "4 times the mean"),))
STAYING_RIBBON = Ribbon(0, 0.5, 0, 0.25, keeps_subtask=True, is_odd=True, tooltip="stays")
ODD_RIBBON = Ribbon(0.5, 0.75, 0.25, 0.5, keeps_subtask=False, is_odd=True, tooltip="goes to 1")
MOVING_RIBBON = Ribbon(0.75, 1, 0.5, 1, keeps_subtask=False, is_odd=False, tooltip="goes to 2")


def map_svg(*ribbons: Ribbon, after: Strip | None = AFTER) -> str:
    return str(key_group_map(KeyGroupMap(BEFORE, ribbons, after), "moves"))


def test_ribbon_leads_from_old_to_new_key_groups() -> None:
    paths = re.findall(
        '<path d="(.*?)"(?: class="(.*?)")?><title>(.*?)</title>', map_svg(STAYING_RIBBON, ODD_RIBBON, MOVING_RIBBON)
    )
    assert paths[0] == ("M0 0H500C500 500 250 500 250 1000H0C0 500 0 500 0 0", "stays", "stays")
    assert paths[1] == ("M500 0H750C750 500 500 500 500 1000H250C250 500 500 500 500 0", "odd", "goes to 1")
    assert paths[2][1:] == ("", "goes to 2")


@pytest.mark.parametrize(("ribbons", "after"), [((), None), ((MOVING_RIBBON,), AFTER), ((), AFTER)])
def test_strips_follow_each_other_down_to_the_height(ribbons: tuple[Ribbon, ...], after: Strip | None) -> None:
    svg = map_svg(*ribbons, after=after)
    extents = {(int(y), int(y) + int(height)) for y, height in re.findall(r' y="(\d+)"[^>]* height="(\d+)"', svg)}
    assert len(extents) == (2 if after is None else 4 + len(ribbons)), "cells and owners of each strip, and the ribbons"
    labels = [int(y) for y in re.findall(r'class="label" x="0" y="(\d+)"', svg)]
    strips = sorted({*extents, *((y - 13, y + 5) for y in labels)})
    assert strips[0][0] == 0
    assert all(end <= begin for (_, end), (begin, _) in pairwise(strips)), strips
    assert strips[-1][1] <= int(svg.partition('height="')[2].partition('"')[0])


def test_subtask_too_narrow_for_its_number_has_a_tooltip_only() -> None:
    numbers, owners = (re.search(f'<g class="{kind}">(.*?)</g>', map_svg(after=None)) for kind in ("numbers", "owners"))
    assert numbers is not None
    assert owners is not None
    assert re.findall(">([^<]+)</text>", numbers[1]) == ["0"]
    assert re.findall("<title>(.*?)</title>", owners[1]) == ["subtask 0", "subtask 1"]


def test_hot_key_group_is_marked_and_explained() -> None:
    assert '<text x="25%"' in map_svg()
    assert "<title>4 times the mean</title>" in map_svg()
    assert "hot key group</li>" in map_svg()
    assert "hot key group" not in map_svg(after=None)


def test_key_groups_of_different_shades_are_told_apart_if_they_are_few() -> None:
    assert f'href="{shades_uri([BEFORE.shades])}"' in map_svg()
    few_class = re.compile('<image [^>]*class="few"')
    wide_strip = Strip("before", (), (1,) * 257, (), ())
    assert few_class.search(map_svg(after=None))
    assert not few_class.search(str(key_group_map(KeyGroupMap(wide_strip), "many")))


def test_matrix_names_its_axes() -> None:
    matrix_svg = str(matrix(Matrix("old subtasks", "new subtasks", ((0, 255), (255, 0))), "moves"))
    assert "↓ old subtasks   → new subtasks" in matrix_svg
    assert shades_uri(((0, 255), (255, 0))) in matrix_svg
