"""The history of a job as one HTML page without external files: the picture, the rounds, the events."""

from html import escape

from elasticjob_cli.views.job_history import JobHistory
from elasticjob_cli.views.svg import as_svg
from elasticjob_cli.views.text import clock, duration
from elasticjob_cli.views.timeline_svg import timeline_picture
from elasticjob_cli.views.timeline_text import reason_text, slots_text

_STYLE = """
body { font: 14px/1.5 ui-sans-serif, system-ui, Helvetica, Arial, sans-serif; margin: 2rem auto; max-width: 1140px;
  padding: 0 1rem; color: #1f2933; background: #fff }
figure { margin: 0 0 2rem; overflow-x: auto }
figure svg { max-width: 100%; min-width: 720px; height: auto }
table { border-collapse: collapse; width: 100%; margin-bottom: 2rem }
th, td { text-align: left; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid #e4e7eb; vertical-align: top }
th { color: #7b8794; font-weight: 600 }
td.number { font-variant-numeric: tabular-nums; white-space: nowrap }
.bad { color: #b83232 }
"""


def timeline_page(history: JobHistory) -> str:
    """Return the page."""
    title = f"{escape(history.name)}: rounds over time"
    rounds = _table(("Round", "Began", "Ran", "Gap before", "Nodes", "Workers", "Slots", "Why"), _rounds(history))
    moments = _table(("Time", "Event", "Message"), _moments(history))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style></head>\n<body>\n<figure>{as_svg(timeline_picture(history))}</figure>\n"
        f"<h2>Rounds</h2>\n{rounds}\n<h2>What happened</h2>\n{moments}\n</body></html>\n"
    )


def _rounds(history: JobHistory) -> list[str]:
    rows = []
    for each, gap_s in zip(history.rounds, history.gaps(), strict=True):
        ran = duration(history.end_of(each) - each.start_s)
        began = clock(each.start_s, fine=history.exact)
        cells = (str(each.number), began, ran, duration(gap_s), str(each.nodes), str(each.workers))
        words = (slots_text(each.slots) if each.slots else "", reason_text(each))
        rows.append("".join(f'<td class="number">{escape(cell)}</td>' for cell in cells) + _cells(words))
    return rows


def _moments(history: JobHistory) -> list[str]:
    rows = []
    for each in history.moments:
        tone = ' class="bad"' if each.warning else ""
        when = f'<td class="number">{clock(each.time_s, fine=history.exact)}</td>'
        rows.append(f"{when}<td{tone}>{escape(each.reason)}</td>{_cells((each.message,))}")
    return rows


def _cells(words: tuple[str, ...]) -> str:
    return "".join(f"<td>{escape(word)}</td>" for word in words)


def _table(head: tuple[str, ...], rows: list[str]) -> str:
    heads = "".join(f"<th>{word}</th>" for word in head)
    body = "\n".join(f"<tr>{row}</tr>" for row in rows)
    return f"<table><thead><tr>{heads}</tr></thead><tbody>\n{body}\n</tbody></table>"
