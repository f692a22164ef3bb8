"""Keys that no agent writes but any pod of a job can write: each is a suffix of the job's prefix."""

DIGITS = "9" * 5000
"""More digits than `int` reads from a text."""
HOSTILE_KEYS = (
    f"/c/done/{DIGITS}/0000",
    f"/c/failures/{DIGITS}/0000.0",
    f"/c/failures/1/0000.{DIGITS}",
    "/c/done/\N{ARABIC-INDIC DIGIT ONE}/0000",
    "/c/nodes/0000.0000000\udcff",
    "/c/nodes/\x1b[31m",
    "/c/spec\n",
    "//c/spec",
    "/../../",
    "/",
    "/c/" + "x" * 100_000,
)
