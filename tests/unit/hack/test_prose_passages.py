"""The passages that the prose lint finds in documents and in Python source."""

from textwrap import dedent

from hack.prose.passages import CODE, Kind, passages
from hack.prose.python_source import source_passages


def _texts(document: str) -> list[str]:
    return [passage.text for passage in passages(dedent(document))]


def _source(source: str) -> dict[str, Kind]:
    return {passage.text: passage.kind for passage in source_passages(dedent(source))}


def test_a_paragraph_is_one_passage_at_its_first_line() -> None:
    found = list(passages("# Title\n\nOne line\nand another.\n\nSecond."))
    assert [(one.line, one.text) for one in found] == [(1, "Title"), (3, "One line and another."), (6, "Second.")]


def test_code_spans_links_and_markup_become_words() -> None:
    assert _texts("**Use** `kubectl get ejob -o yaml` as in [the page](a.md#b), *always*.") == [
        f"Use {CODE} as in the page, always."
    ]


def test_items_of_a_list_are_passages_with_their_continuation() -> None:
    assert _texts("""\
        Two:
        - one
          and more
        - two
          - nested
            further
    """) == ["Two:", "one and more", "two", "nested further"]


def test_code_blocks_and_comments_of_html_are_left_out() -> None:
    assert _texts("""\
        Before.

            who says

        ```
        nobody
        ```
        <!-- whoever
        says -->
        After.
    """) == ["Before.", "After."]


def test_cells_of_a_table_are_passages() -> None:
    assert _texts("| folder | what |\n| --- | :-: |\n| `a/` | a thing |") == ["folder", "what", CODE, "a thing"]


def test_sections_of_a_docstring_have_a_passage_for_each_argument() -> None:
    assert _texts("""\
        Return it.

        Args:
            first: the one,
                or another.
            second: more.

        Raises:
            KeyError: none of that name.
    """) == ["Return it.", "the one, or another.", "more.", "none of that name."]


def test_docstrings_of_attributes_count_and_the_summary_is_known() -> None:
    found = _source('''\
        """Module."""
        x = 1
        """A number."""
        def public():
            """Return it.

            More.
            """
        def _private():
            """Private."""
        ''')
    assert found == {
        "Module.": Kind.TEXT,
        "A number.": Kind.TEXT,
        "Return it.": Kind.SUMMARY,
        "More.": Kind.TEXT,
        "Private.": Kind.TEXT,
    }


def test_comments_on_consecutive_lines_are_one_passage() -> None:
    assert list(
        _source("""\
        #!/usr/bin/env python3
        # one
        # two
        x = "# no comment"  # three
        y = 1  # noqa: E501
        """)
    ) == ["one two", "three"]


def test_messages_of_errors_log_lines_and_help_are_passages() -> None:
    assert set(
        _source("""\
        log.warning(f"no answer from {address!r} for {seconds} s")
        self._logger.info("round %d began", 3)
        add(help="show more lines", name="not shown")
        raise ValueError(f"no {thing}" if thing else "no such thing")
        log.info("word")
        print("not looked at")
        """)
    ) == {
        f"no answer from {CODE} for {CODE} s",
        "round %d began",
        "show more lines",
        f"no {CODE}",
        "no such thing",
    }


def test_a_text_that_is_found_in_two_ways_counts_once() -> None:
    assert len(list(source_passages('raise Failed(message="it has failed")'))) == 1
