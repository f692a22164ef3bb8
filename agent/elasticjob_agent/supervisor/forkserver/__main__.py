"""Entry point of the fork server: `python -I -S .../forkserver SOCKET_FD AGENT_PID`, on the standard library alone.

Python puts this folder on the path. The folder above makes `forkserver` a package of its own: its modules come from
compiled files, and nothing else of the project is imported. Nothing may be found in that folder afterwards, because its
other modules must not shadow those of the user.
"""

import importlib
import os
import sys

sys.path[0] = os.path.dirname(os.path.dirname(__file__))  # noqa: PTH120 - pathlib would add a tenth to the start-up time
main = importlib.import_module("forkserver.server").main
del sys.path[0]
main()
