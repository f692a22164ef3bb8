"""The read-only web page with the live state of an operator's jobs.

`PageState` has the state; `PageServer` serves it. Neither needs kopf or kubernetes, so `elasticjob run` has the same
page:

    state = PageState()
    controller = Controller(cluster, etcd, settings, watch=cluster.watch, observer=state)
    async with PageServer(state, host="127.0.0.1", port=0) as page:
        print(page.url)

The page only reads. A job determines every text that the page shows about it, so texts are untrusted: the browser must
show them as text.
"""

from elasticjob_operator.ui.server import PageServer
from elasticjob_operator.ui.state import PageState

__all__ = ["PageServer", "PageState"]
