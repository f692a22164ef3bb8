"""Find out from the byte code whether an instruction is inside the body of a `with` block.

This module imports nothing but `sys`; see entry.py. So it has the numbers of a few instructions.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType

    Range = tuple[int, int]

SETUP_WITH, SETUP_ASYNC_WITH, EXTENDED_ARG = 143, 154, 144
"""Instructions of Python 3.8 to 3.10."""
PUSH_EXC_INFO, WITH_EXCEPT_START = (35, 49) if sys.version_info < (3, 13) else (33, 44)
"""Instructions of Python 3.11 and later: so the code begins that a `with` block runs after an error."""
_MAX_CODE, _MAX_TABLE = 1 << 20, 1 << 15
"""Bytes of the code, or of its table of errors: a longer one counts as one block."""
_MAX_CODES = 10_000
_MAX_NUMBER = (1 << 30) - 1


class WithBlockCache:
    """The blocks of code objects, each found once."""

    def __init__(self) -> None:
        self._found: "dict[int, tuple[CodeType, list[Range]]]" = {}

    def has(self, code: "CodeType", place: int) -> bool:
        """Whether the instruction at this place is inside a `with` block of this code."""
        known = self._found.get(id(code))
        if known is None:
            if len(self._found) >= _MAX_CODES:
                self._found.clear()
            known = self._found[id(code)] = (code, _blocks(code))  # with the code, so that it keeps its id
        return any(begin < place < end for begin, end in known[1])


def _blocks_in_code(code: "CodeType") -> "list[Range]":
    """Return the blocks that instructions of this code begin."""
    instructions, found = code.co_code, []
    numbers = instructions[::2]
    if SETUP_WITH not in numbers and SETUP_ASYNC_WITH not in numbers:
        return []
    if len(instructions) > _MAX_CODE:
        return [(-2, len(instructions))]
    unit = 2 if sys.version_info >= (3, 10) else 1
    for begin in range(0, len(instructions), 2):
        if instructions[begin] in (SETUP_WITH, SETUP_ASYNC_WITH):
            length, shift, before = instructions[begin + 1], 8, begin - 2
            while before >= 0 and instructions[before] == EXTENDED_ARG:
                length += instructions[before + 1] << shift
                shift, before = shift + 8, before - 2
            found.append((begin, begin + 2 + length * unit))
    return found


def _blocks_in_table(code: "CodeType") -> "list[Range]":
    """Return the ranges of this code whose errors come to a `with` block.

    Each range of the table has the place of its handler. The handler of a `try` inside is in a range of the block.
    """
    table, instructions = code.co_exceptiontable, code.co_code
    if len(table) > _MAX_TABLE:
        return [(-2, len(instructions))]
    ranges = _ranges(table)
    of_block: "dict[int, bool]" = {}
    """Handler → whether it is that of a block, or in one."""
    for _, _, handler in ranges:
        chain = [handler]
        while chain[-1] not in of_block:
            if instructions[chain[-1]] == PUSH_EXC_INFO and instructions[chain[-1] + 2] == WITH_EXCEPT_START:
                of_block[chain[-1]] = True
                break
            outer = _handler_at(chain[-1], ranges)
            if outer is None or outer in chain:  # one that protects itself would be an endless chain
                of_block[chain[-1]] = False
                break
            chain.append(outer)
        of_block.update(dict.fromkeys(chain, of_block[chain[-1]]))
    return [(begin - 1, end) for begin, end, handler in ranges if of_block[handler]]


def _handler_at(place: int, ranges: "list[tuple[int, int, int]]") -> "int | None":
    """Return the handler of the range with this place, if any; the ranges are in order."""
    low, high = 0, len(ranges)
    while low < high:
        middle = (low + high) // 2
        if ranges[middle][1] <= place:
            low = middle + 1
        else:
            high = middle
    return ranges[low][2] if low < len(ranges) and ranges[low][0] <= place else None


def _ranges(table: bytes) -> "list[tuple[int, int, int]]":
    """Return the begin, the end and the handler of each range, as places in the code."""
    # Four numbers for each range: begin, length, handler, and the depth of the stack. Each has six bits in a byte, the
    # highest first; 64 marks that more follow. See Objects/exception_handling_notes.txt of CPython.
    numbers, number = [], 0
    for byte in table:
        number = (number << 6 | byte & 63) & _MAX_NUMBER
        if not byte & 64:
            numbers.append(number)
            number = 0
    return [
        (2 * begin, 2 * (begin + length), 2 * handler)
        for begin, length, handler in zip(numbers[::4], numbers[1::4], numbers[2::4])  # noqa: B905 - not in 3.8
    ]


_blocks = _blocks_in_table if sys.version_info >= (3, 11) else _blocks_in_code
