"""Translates type trees to instructions of `machine`; importing this module loads numba."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from rescale.flink.arrays import Longs
from rescale.flink.keys import machine
from rescale.flink.serializers.type_tree import (
    Blob,
    Deep,
    Fixed,
    Flagged,
    Masked,
    Nullable,
    Number,
    Product,
    Repeat,
    Sequence,
    Text,
    TypeTree,
    Union,
    Uuid,
    WeightedSum,
)

_PRODUCT_SEED = 0xCAFEBABE
"""`MurmurHash3.productSeed` of Scala."""


@lru_cache(maxsize=64)
def lower(tree: TypeTree) -> tuple[Longs, int]:
    """Return the instructions (int64, n × 3), and the largest number of frames that are open at a time."""
    lowering = _Lowering()
    lowering.add(tree)
    lowering.emit(machine.STOP)
    return np.array(lowering.instructions, dtype=np.int64), lowering.depth


class _Lowering:
    def __init__(self) -> None:
        self.instructions: list[list[int]] = []
        self.depth = 0
        self._open_frames = 0

    @property
    def next_index(self) -> int:
        return len(self.instructions)

    def emit(self, op: int, a: int = 0, b: int = 0) -> list[int]:
        """Append an instruction and return it, so that its jump target can be filled in later."""
        instruction = [op, a, b]
        self.instructions.append(instruction)
        return instruction

    def add(self, tree: TypeTree) -> None:
        match tree:
            case Fixed(size, rule):
                self.emit(machine.FIXED, size, rule)
            case Text(has_null):
                self.emit(machine.TEXT, has_null)
            case Number(scaled):
                self.emit(machine.NUMBER, scaled)
            case Blob(rule):
                self.emit(machine.BLOB, rule)
            case Uuid(kryo_version):
                self.emit(machine.UUID, kryo_version)
            case Sequence(fields):
                self._emit_sequence(fields)
            case Product(fields):
                self._emit_product(fields)
            case Masked(fields, has_kind):
                self._emit_masked(fields, has_kind)
            case Repeat(items):
                self._emit_repeat(items)
            case Union(fields, tags):
                self._emit_union(fields, tags)
            case Nullable(inner, padding):
                nullable_instruction = self.emit(machine.NULLABLE, padding)
                self.add(inner)
                nullable_instruction[2] = self.next_index
            case Flagged(fields=fields, hash_sum=hash_sum):
                self._emit_flagged(fields, hash_sum or WeightedSum(0, (0,) * len(fields), 0))
            case Deep(inner):
                self.add(inner)
                self.emit(machine.DEEP)

    def _emit_sequence(self, fields: tuple[TypeTree, ...]) -> None:
        self._enter()
        self.emit(machine.PUSH)
        for field in fields:
            self.add(field)
            self.emit(machine.FOLD)
        self._leave(machine.POP)

    def _emit_product(self, fields: tuple[TypeTree, ...]) -> None:
        self._enter()
        self.emit(machine.PUSH, _PRODUCT_SEED)
        for field in fields:
            self.add(field)
            self.emit(machine.MIX)
        self._leave(machine.END_PRODUCT, len(fields))

    def _emit_flagged(self, fields: tuple[TypeTree, ...], hash_sum: WeightedSum) -> None:
        flags_instruction = self.emit(machine.FLAGS)
        self._enter()
        self.emit(machine.PUSH, hash_sum.constant)
        for field, weight in zip(fields, hash_sum.weights, strict=True):
            self.add(Nullable(field))
            if weight:
                self.emit(machine.WEIGH, weight, hash_sum.null_hash)
        self._leave(machine.POP)
        flags_instruction[1] = self.next_index

    def _emit_masked(self, fields: tuple[TypeTree, ...], has_kind: bool) -> None:
        first_bit = 2 if has_kind else 0
        self._enter()
        self.emit(machine.MASK, first_bit + len(fields))
        for bit, field in enumerate(fields, first_bit):
            field_instruction = self.emit(machine.FIELD, bit)
            self.add(field)
            self.emit(machine.FOLD)
            field_instruction[2] = self.next_index
        self._leave(machine.END_ROW, has_kind)

    def _emit_repeat(self, items: tuple[TypeTree, ...]) -> None:
        self._enter()
        repeat_instruction = self.emit(machine.REPEAT)
        first_index = self.next_index
        for item in items:
            self.add(item)
        self.emit(machine.FOLD)
        self.emit(machine.AGAIN, first_index)
        repeat_instruction[1] = self.next_index
        self._leave(machine.POP)

    def _emit_union(self, fields: tuple[TypeTree, ...], tags: tuple[int, ...]) -> None:
        case_instruction, jump_instructions = [0, 0, 0], []
        for field, tag in zip(fields, tags, strict=True):
            case_instruction[2] = self.next_index
            case_instruction = self.emit(machine.CASE, tag)
            self.add(field)
            jump_instructions.append(self.emit(machine.JUMP))
        for jump in jump_instructions:
            jump[1] = self.next_index

    def _enter(self) -> None:
        self._open_frames += 1
        self.depth = max(self.depth, self._open_frames)

    def _leave(self, op: int, a: int = 0) -> None:
        self.emit(op, a)
        self._open_frames -= 1
