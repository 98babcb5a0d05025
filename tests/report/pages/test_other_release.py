"""The page about another release of Flink: each reason and each piece of advice once, and what dropping costs."""

from __future__ import annotations

from rescale.flink.serializers.release_rules import Restores
from rescale.report.page import Bullets, Command, Page
from rescale.report.pages.other_release import prospects_section
from rescale.report.renderers.text import render_text
from rescale.snapshot.prospects import OperatorProspect, ReleaseProspects, RestoreReason, StateProspect

SERIALIZER_GONE = RestoreReason("the serializer is gone", "org.flink.Gone", "keep the old release")
FORMAT_NEWER = RestoreReason("the format is newer", "org.flink.Newer", "use a later release")


def operator(label: str, *states: StateProspect) -> OperatorProspect:
    restores = max((state.restores for state in states), key=list(Restores).index)
    return OperatorProspect("ab" * 16, label, restores, states)


def state(name: str, restores: Restores, reason: RestoreReason | None = None) -> StateProspect:
    return StateProspect(name, restores.value, reason)


COUNTS = operator(
    "counts", state("a", Restores.NO, SERIALIZER_GONE), state("b", Restores.NO, FORMAT_NEWER), state("c", Restores.YES)
)
SUMS = operator("sum of all", state("d", Restores.NO, SERIALIZER_GONE))
RESTORED_OPERATOR = operator("whole", state("e", Restores.YES))


def section_blocks(*operators: OperatorProspect) -> tuple[object, ...]:
    section = prospects_section(ReleaseProspects("1.19", "no", None, operators), "/my savepoint")
    assert section.title == "What Flink 1.19 would restore"
    return section.blocks


def items_by_lead(blocks: tuple[object, ...]) -> dict[str, list[object]]:
    return {str(block.lead): list(block.items) for block in blocks if isinstance(block, Bullets)}


def test_reasons_and_advice_are_listed_once_with_all_that_they_concern() -> None:
    bullet_items = items_by_lead(section_blocks(COUNTS, SUMS, RESTORED_OPERATOR))
    assert bullet_items["Why not:"] == [
        "no: the format is newer (org.flink.Newer): counts b",
        "no: the serializer is gone (org.flink.Gone): counts a, sum of all d",
    ]
    assert bullet_items["What to do:"] == ["keep the old release: counts, sum of all", "use a later release: counts"]


def test_command_drops_just_the_operators_that_are_not_restored() -> None:
    (command,) = (block for block in section_blocks(COUNTS, SUMS, RESTORED_OPERATOR) if isinstance(block, Command))
    assert command.line == "rescale run '/my savepoint' --target TARGET --drop counts --drop 'sum of all'"


def test_nothing_is_listed_if_all_is_restored() -> None:
    blocks = section_blocks(RESTORED_OPERATOR)
    assert items_by_lead(blocks) == {}
    assert not any(isinstance(block, Command) for block in blocks)


def test_release_that_restores_nothing_says_why_and_what_to_do() -> None:
    section = prospects_section(ReleaseProspects("1.11", "no", SERIALIZER_GONE, (RESTORED_OPERATOR,)), "/savepoint")
    text = render_text(Page((section,)))
    assert "nothing: the serializer is gone" in text
    assert "keep the old release" in text
    assert "whole" not in text
