"""Workers that do everything to survive their end: scripts for a fast Python, each a tree of a known shape.

Each takes `stay` or `leave` as its argument: whether the leader stays alive when the tree stands. Each writes `ready`
when it does, so a test never looks too early.
"""

_HEAD = """
import os, signal, sys, time

def last():
    "The leader's end of the script."
    print("ready", flush=True)
    if sys.argv[1] == "stay":
        while True: time.sleep(1000)
    os._exit(0)

def fork(body):
    "Run body in a child; return in the parent when it has said that it is where it wants to be."
    there, here = os.pipe()
    if os.fork() == 0:
        body(lambda: os.write(here, b"."))
        while True: time.sleep(1000)
    os.close(here)
    os.read(there, 1)
"""

_SAME_SESSION = """
fork(lambda say: say())
last()
"""

_OWN_SESSION = """
def body(say):
    os.setsid()
    say()
fork(body)
last()
"""

_DAEMON = """
def body(say):
    os.setsid()
    if os.fork(): os._exit(0)
    say()
fork(body)
last()
"""

_NESTED_SESSIONS = """
def inner(say):
    os.setsid()
    say()
def outer(say):
    os.setsid()
    fork(inner)
    say()
fork(outer)
last()
"""

_BARE_ENVIRONMENT = """
def body(say):
    os.setsid()
    os.set_inheritable(here_of(say), True)
    os.execve("/bin/sh", ["sh", "-c", f"echo . >&{here_of(say)}; while :; do sleep 1000; done"], {})
def here_of(say):
    return say.__closure__[0].cell_contents
fork(body)
last()
"""

_STUBBORN = """
for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP): signal.signal(signum, signal.SIG_IGN)
fork(lambda say: say())
last()
"""

_STOPPED = """
def body(say):
    say()
    os.kill(os.getpid(), signal.SIGSTOP)
fork(body)
last()
"""

_FORK_LOOP = """
def body(say):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    say()
    while True:
        if os.fork(): os._exit(0)
fork(body)
last()
"""

_FORK_LOOP_IN_NEW_SESSIONS = """
def body(say):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    say()
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
    """The whole script of this shape."""
    return _HEAD + TREES[shape]
