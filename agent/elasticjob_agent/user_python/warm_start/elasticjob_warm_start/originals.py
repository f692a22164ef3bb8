"""Modules of Python as they are before any code of the user: an import may replace a function in them.

For example gevent replaces `os.read`. A worker whose answer does not arrive would be started twice.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    import fcntl as fcntl  # noqa: PLC0414 - for type checkers, these are the modules themselves
    import json as json  # noqa: PLC0414
    import os as os  # noqa: PLC0414
    import select as select  # noqa: PLC0414
    import signal as signal  # noqa: PLC0414
    import time as time  # noqa: PLC0414
else:
    import importlib
    import types

    for _name in ("fcntl", "json", "os", "select", "signal", "time"):
        globals()[_name] = types.SimpleNamespace(**vars(importlib.import_module(_name)))
