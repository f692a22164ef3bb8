"""The read-only web page: what an operator knows of its jobs, shown to a person, live.

`PageState` holds what was seen; `PageServer` serves it. Neither needs kopf or kubernetes, so `elasticjob run` has the
same page:

    board = Board()
    operator = Operator(cluster, etcd, settings, onlooker=board)
    async with Page(board, host="127.0.0.1", port=0) as page:
        print(page.url)

It only reads. Everything that it shows of a job is the job's own word: hostile text until a browser shows it as text.
"""

from elasticjob_operator.ui.server import PageServer
from elasticjob_operator.ui.state import PageState

__all__ = ["PageServer", "PageState"]
