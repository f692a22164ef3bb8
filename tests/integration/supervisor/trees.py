"""Workers that do everything to survive their end: scripts for a fast Python, each a tree of a known shape.

The argument of each is `stay` or `leave`: whether the leader stays alive when the tree is complete. Then each writes
`ready`, so a test never checks too early.
"""

_HEAD = """
import os, signal, sys, time

def last():
    "The leader's end of the script."
    os.write(1, b"ready\\n")  # one write: with PYTHONUNBUFFERED, print needs two, and another leader may come between
    if sys.argv[1] == "stay":
        while True: time.sleep(1000)
    os._exit(0)

def fork(body):
    "Run body in a child; return in the parent when the child has reported that it is ready."
    there, here = os.pipe()
    if os.fork() == 0:
        body(lambda: os.write(here, b"."))
        while True: time.sleep(1000)
    os.close(here)
    os.read(there, 1)
"""

_SAME_SESSION = """
fork(lambda report: report())
last()
"""

_OWN_SESSION = """
def body(report):
    os.setsid()
    report()
fork(body)
last()
"""

_DAEMON = """
def body(report):
    os.setsid()
    if os.fork(): os._exit(0)
    report()
fork(body)
last()
"""

_NESTED_SESSIONS = """
def inner(report):
    os.setsid()
    report()
def outer(report):
    os.setsid()
    fork(inner)
    report()
fork(outer)
last()
"""

_BARE_ENVIRONMENT = """
def body(report):
    os.setsid()
    os.set_inheritable(here_of(report), True)
    os.execve("/bin/sh", ["sh", "-c", f"echo . >&{here_of(report)}; while :; do sleep 1000; done"], {})
def here_of(report):
    return report.__closure__[0].cell_contents
fork(body)
last()
"""

_STUBBORN = """
for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP): signal.signal(signum, signal.SIG_IGN)
fork(lambda report: report())
last()
"""

_STOPPED = """
def body(report):
    report()
    os.kill(os.getpid(), signal.SIGSTOP)
fork(body)
last()
"""

_FORK_LOOP = """
def body(report):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    report()
    while True:
        if os.fork(): os._exit(0)
fork(body)
last()
"""

_FORK_LOOP_IN_NEW_SESSIONS = """
def body(report):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    report()
    while True:
        if os.fork(): os._exit(0)
        os.setsid()
fork(body)
last()
"""

TREES = {
    "nothing but itself": "last()",
    "a child in the same session": _SAME_SESSION,
    "a child in a session of its own": _OWN_SESSION,
    "a daemon, forked twice": _DAEMON,
    "sessions below sessions": _NESTED_SESSIONS,
    "a session without our environment": _BARE_ENVIRONMENT,
    "a tree that ignores signals": _STUBBORN,
    "a stopped child": _STOPPED,
    "a child that forks for ever": _FORK_LOOP,
    "a child that forks into new sessions for ever": _FORK_LOOP_IN_NEW_SESSIONS,
}


def script(shape: str) -> str:
    """Return the whole script of this shape."""
    return _HEAD + TREES[shape]
