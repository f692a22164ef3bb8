"""A reader for the tables that kubectl prints: by the column's start, since a cell may be empty or have spaces."""


def only_row(table: str) -> dict[str, str]:
    """Return the cells of the only row below the head, by column."""
    head, row = table.splitlines()
    starts = [0, *(i for i in range(2, len(head)) if head[i - 2 : i] == "  " and head[i] != " ")]
    spans = [slice(start, end) for start, end in zip(starts, [*starts[1:], None], strict=True)]
    return {head[span].strip(): row[span].strip() for span in spans}
