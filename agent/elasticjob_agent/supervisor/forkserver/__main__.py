"""How the starter is run: `python -I -S .../starter SOCKET_FD AGENT_PID`, on the standard library alone.

Python puts this folder on the path; the one above it makes `starter` a package of its own, so that its modules come
from their compiled files and nothing else of the project is imported. Nothing may be found there afterwards: the
folder's other modules must not shadow anyone's.
"""

import importlib
import os
import sys

sys.path[0] = os.path.dirname(os.path.dirname(__file__))  # noqa: PTH120 - pathlib is a tenth of its start
main = importlib.import_module("forkserver.server").main
del sys.path[0]
main()
