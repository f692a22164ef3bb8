"""Find out from the byte code whether an instruction is inside the body of a `with` block.

This module imports nothing but `sys`; see entry.py. So it has the numbers of a few instructions.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType

SETUP_WITH, SETUP_ASYNC_WITH, EXTENDED_ARG = 143, 154, 144
"""Instructions of Python 3.8 to 3.10."""
PUSH_EXC_INFO, WITH_EXCEPT_START = (35, 49) if sys.version_info < (3, 13) else (33, 44)
"""Instructions of Python 3.11 and later: so the code begins that a `with` block runs after an error."""


def _is_in_block(code: "CodeType", place: int) -> bool:
    """Whether the instruction at this place is inside a `with` block of this code."""
    instructions = code.co_code
    numbers = instructions[::2]
    if SETUP_WITH not in numbers and SETUP_ASYNC_WITH not in numbers:
        return False
    unit = 2 if sys.version_info >= (3, 10) else 1
    for begin in range(0, min(place, len(instructions)), 2):
        if instructions[begin] in (SETUP_WITH, SETUP_ASYNC_WITH):
            length, shift, before = instructions[begin + 1], 8, begin - 2
            while before >= 0 and instructions[before] == EXTENDED_ARG:
                length += instructions[before + 1] << shift
                shift, before = shift + 8, before - 2
            if begin < place < begin + 2 + length * unit:
                return True
    return False


def _is_in_protected_range(code: "CodeType", place: int) -> bool:
    """Whether the instruction at this place is inside a `with` block of this code.

    Each range of the table has the place of its handler. The handler of a `try` inside is in a range of the block.
    """
    table = code.co_exceptiontable
    if not table:
        return False
    ranges, instructions = _ranges(table), code.co_code
    for _ in ranges:  # a handler that protects itself would be an endless chain
        handler = next((handler for begin, end, handler in ranges if begin <= place < end), None)
        if handler is None:
            return False
        if instructions[handler] == PUSH_EXC_INFO and instructions[handler + 2] == WITH_EXCEPT_START:
            return True
        place = handler
    return False


def _ranges(table: bytes) -> "list[tuple[int, int, int]]":
    """Return the begin, the end and the handler of each range, as places in the code."""
    # Four numbers for each range: begin, length, handler, and the depth of the stack. Each has six bits in a byte, the
    # highest first; 64 marks that more follow. See Objects/exception_handling_notes.txt of CPython.
    numbers, number = [], 0
    for byte in table:
        number = number << 6 | byte & 63
        if not byte & 64:
            numbers.append(number)
            number = 0
    return [
        (2 * begin, 2 * (begin + length), 2 * handler)
        for begin, length, handler in zip(numbers[::4], numbers[1::4], numbers[2::4])  # noqa: B905 - not in 3.8
    ]


is_in_with = _is_in_protected_range if sys.version_info >= (3, 11) else _is_in_block
