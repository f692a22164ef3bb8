# ruff: noqa: E501 - a program of three statements is easier to read as one string
"""The programs of the fidelity matrix: each is run cold, recorded and warm, and must behave the same.

`probe.py` prints one line for each thing that a program can observe about itself: its name, a tab and its value.
"""

PROBE = r"""
import sys; loaded = sorted(sys.modules)
import ctypes, gc, json, locale, logging, os, resource, signal, subprocess, sys, threading, time, warnings, atexit

def show(name, value):
    print(name + "\t" + json.dumps(value, default=repr), flush=False)

def status(*names):
    with open("/proc/self/status") as file:
        lines = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    return {name: lines.get(name) for name in names}

def read(path):
    with open(path) as file:
        return file.read()

def prctl(option):
    value = ctypes.c_int()
    return [ctypes.CDLL(None).prctl(option, ctypes.byref(value), 0, 0, 0), value.value]

depth, frame = 0, sys._getframe()
while frame:
    depth, frame = depth + 1, frame.f_back
lowest = os.open(os.devnull, os.O_RDONLY); os.close(lowest)

show("argv", sys.argv)
show("orig_argv", getattr(sys, "orig_argv", None))
show("path", sys.path)
show("executable", [sys.executable, sys.prefix, sys.base_prefix, sys.exec_prefix])
show("cwd", os.getcwd())
show("globals", {name: repr(value) for name, value in sorted(globals().items()) if name.startswith("__")})
show("globals order", list(globals())[:10])
show("frames", depth)
show("flags", repr(sys.flags))
show("xoptions", [sys._xoptions, sys.warnoptions])
show("filters", warnings.filters)
show("hooks", [repr(sys.excepthook), repr(sys.displayhook), sys.gettrace(), sys.getprofile(), sys.path_hooks])
show("meta_path", sys.meta_path)
show("limits", [sys.getrecursionlimit(), sys.getswitchinterval(), sys.dont_write_bytecode, sys.pycache_prefix])
for name in ("stdin", "stdout", "stderr"):
    stream = getattr(sys, name)
    facts = [stream.encoding, stream.errors, stream.line_buffering, getattr(stream, "write_through", None), stream.name]
    show(name, [*facts, stream.isatty(), stream is getattr(sys, "__%s__" % name), repr(stream), repr(stream.buffer)])
show("encodings", [sys.getfilesystemencoding(), sys.getfilesystemencodeerrors(), locale.getpreferredencoding(False)])
show("locale", locale.setlocale(locale.LC_ALL))
show("timezone", [time.tzname, time.timezone])
show("handlers", {number: repr(signal.getsignal(number)) for number in range(1, signal.NSIG) if number not in (32, 33)})
show("wakeup", signal.set_wakeup_fd(-1))
show("signals", status("SigBlk", "SigIgn", "ShdPnd", "SigPnd"))
show("caught signals", status("SigCgt"))
show("kernel", status("Umask", "NoNewPrivs", "Seccomp", "CapEff", "Groups", "THP_enabled", "Threads", "CoreDumping"))
show("rlimits", {name: resource.getrlimit(getattr(resource, name)) for name in dir(resource) if name.startswith("RLIMIT")})
show("scheduling", [os.nice(0), os.sched_getscheduler(0), sorted(os.sched_getaffinity(0)), read("/proc/self/timerslack_ns")])
show("oom", [read("/proc/self/oom_score_adj"), read("/proc/self/coredump_filter")])
show("dumpable", ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))
show("end with the parent", prctl(2))
show("subreaper", prctl(37))
show("session", [os.getsid(0) == os.getpid(), os.getpgrp() == os.getpid(), os.getppid()])
show("children", read("/proc/self/task/%d/children" % os.getpid()))
show("command line", read("/proc/self/cmdline"))
show("process name", read("/proc/self/comm"))
show("task name", read("/proc/self/task/%d/comm" % os.getpid()))
show("exe", os.readlink("/proc/self/exe"))
def what(fd):
    try:
        return os.readlink("/proc/self/fd/" + fd).split(":")[0]
    except OSError:
        return "gone"
show("descriptors", {fd: what(fd) for fd in sorted(os.listdir("/proc/self/fd"), key=int) if what(fd) != "gone" and int(fd) < 512})
show("high descriptors", [fd for fd in os.listdir("/proc/self/fd") if int(fd) >= 512])
show("first free descriptor", lowest)
show("environ", list(os.environ.items()))
show("C environ", subprocess.run(["/usr/bin/env"], stdout=subprocess.PIPE).stdout.decode())
import posix
show("posix.environ", [posix.environ is os.environ._data, repr(list(posix.environ.items()))])
show("process environ", read("/proc/self/environ").split("\0"))
main = threading.main_thread()
show("main thread", [main is threading.current_thread(), main.name, threading.active_count(), main.daemon])
show("main thread id", main.native_id == threading.get_native_id() == os.getpid())
show("modules", loaded)
show("importer cache", sorted(sys.path_importer_cache))
show("gc", [gc.isenabled(), gc.get_threshold(), gc.get_debug(), gc.callbacks])
show("frozen objects", gc.get_freeze_count() if hasattr(gc, "get_freeze_count") else 0)
show("exit functions", atexit._ncallbacks())
show("log time", logging.LogRecord("", 0, "", 0, "", (), None).relativeCreated < 60000)
"""

_ENDS = {
    "exc.py": "import json\ndef f(n):\n    return 1 / n\ndef g():\n    f(0)\ng()\n",
    "exc_atexit.py": "import atexit\natexit.register(print, 'bye')\natexit.register(lambda: 1 / 0)\nraise ValueError('x')\n",
    "chained.py": "try:\n    {}['a']\nexcept KeyError as e:\n    raise RuntimeError('r') from e\n",
    "exit_text.py": "import sys\nprint('out')\nsys.exit('text')\n",
    "exit_300.py": "import sys\nsys.exit(300)\n",
    "exit_none.py": "import sys\nsys.exit(None)\n",
    "exit_now.py": "import os, sys\nprint('lost')\nsys.stderr.write('seen')\nos._exit(7)\n",
    "interrupt.py": "raise KeyboardInterrupt\n",
    "sigint.py": "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nimport time\ntime.sleep(10)\n",
    "sigterm.py": "import atexit, os, signal\natexit.register(print, 'no')\nos.kill(os.getpid(), signal.SIGTERM)\n",
    "sigkill.py": "import os, signal\nprint('no')\nos.kill(os.getpid(), signal.SIGKILL)\n",
    "abort.py": "import os\nprint('x', flush=True)\nos.abort()\n",
    "segv.py": "import faulthandler, os, signal\nfaulthandler.enable()\ndef inner():\n    os.kill(os.getpid(), signal.SIGSEGV)\ninner()\n",
    "syntax.py": "import os\nprint('no')\nx = = 1\n",
    "hook.py": "import sys\ndef hook(kind, value, tb):\n    print('hook', kind.__name__, value, tb.tb_lineno)\nsys.excepthook = hook\n1 / 0\n",
    "stack.py": "import inspect, traceback\ndef f():\n    traceback.print_stack()\n    print([x.function for x in inspect.stack()])\nf()\n",
    "warn.py": "import warnings\nwarnings.warn('one')\nwarnings.warn('two', DeprecationWarning, stacklevel=2)\ndef f():\n    warnings.warn('three', stacklevel=2)\nf()\n",
    "recursion.py": "import sys\nn = 0\ndef f():\n    global n\n    n += 1\n    f()\ntry:\n    f()\nexcept RecursionError:\n    print(n)\n",
    "finalizers.py": (
        "import weakref\nclass A:\n    def __init__(self, n): self.n = n\n    def __del__(self): print('del', self.n)\n"
        "a = A('global')\nb = A('cycle'); b.me = b\ndef f(x=A('default')): pass\nf.me = f\n"
        "weakref.finalize(a, print, 'finalize')\nprint('end')\n"
    ),
    "unflushed.py": "import sys\ndef show():\n    f\nf = open('left.txt', 'w')\nf.write('data')\n",
    "daemon.py": (
        "import threading, time\ndef run():\n    time.sleep(100)\nthreading.Thread(target=run, daemon=True).start()\n"
        "def late():\n    time.sleep(0.05); print('late')\nthreading.Thread(target=late).start()\nprint('main ends')\n"
    ),
    "sigpipe.py": "import os, signal\nprint(signal.getsignal(signal.SIGPIPE))\nr, w = os.pipe()\nos.close(r)\nos.write(w, b'x')\n",
    "stdin.py": "import sys\nprint(repr(sys.stdin.read()), sys.stdin.fileno())\ninput()\n",
    "raw.py": "import os, sys\nsys.stdout.write('python ')\nos.write(1, b'raw ')\nsys.stderr.write('err')\nsys.stdout.flush()\n",
    "c_output.py": "import ctypes\nlibc = ctypes.CDLL(None)\nlibc.printf(b'from C %d\\n', 7)\nprint('from Python')\n",
    "encoding.py": "import sys\nprint(ascii('\\u00e4'), sys.stdout.encoding, sys.stdout.errors)\ntry:\n    print('\\u00e4\\u4e2d')\nexcept UnicodeEncodeError as e:\n    print(e)\n",
    "unicode.py": "# -*- coding: utf-8 -*-\nclass Ä:\n    pass\nprint(ascii(Ä.__name__), Ä.__module__)\n",
}

_LIBRARIES = {
    "pickled.py": (
        "import pickle\nclass P:\n    def __init__(self): self.x = 1\n    def __eq__(self, o): return self.x == o.x\n"
        "data = pickle.dumps(P())\nprint(data)\nprint(pickle.loads(data) == P(), P.__module__, P.__qualname__)\n"
    ),
    "source.py": "import inspect\ndef f(a, b=2):\n    return a\nprint(inspect.getsource(f), inspect.signature(f), inspect.getfile(f))\n",
    "annotations.py": "import typing\nx: int = 1\ny: 'typing.List[int]'\ndef f(a: 'Z') -> int: ...\nprint(typing.get_type_hints(f.__class__), __annotations__)\n",
    "future.py": "from __future__ import annotations\nimport dataclasses\n@dataclasses.dataclass\nclass D:\n    a: Unknown\nprint(D.__annotations__, D(1))\n",
    "logs.py": (
        "import logging, logging.handlers\nlogging.basicConfig(format='%(name)s %(levelname)s %(processName)s %(threadName)s %(message)s')\n"
        "logging.warning('w')\nlogging.getLogger('a.b').error('e', exc_info=False)\n"
        "print(logging.getLogger().handlers, len(logging._handlers))\n"
    ),
    "processes.py": (
        "import multiprocessing as mp, multiprocessing.process, multiprocessing.spawn, os, sys\n"
        "def work(q, how):\n    q.put((how, os.environ['RANK'], __name__, mp.current_process().name, mp.parent_process().name))\n"
        "def square(x): return x * x\n"
        "if __name__ == '__main__':\n"
        "    print(mp.current_process().name, mp.parent_process(), mp.get_start_method())\n"
        "    data = multiprocessing.spawn.get_preparation_data('x')\n"
        "    print({k: v for k, v in data.items() if k != 'authkey'})\n"
        "    for how in ('fork', 'spawn', 'forkserver'):\n"
        "        c = mp.get_context(how); q = c.Queue(); p = c.Process(target=work, args=(q, how)); p.start()\n"
        "        print(q.get()); p.join(); print(p.exitcode)\n"
        "    with mp.get_context('fork').Pool(2) as pool: print(pool.map(square, range(5)))\n"
    ),
    "executor.py": (
        "import concurrent.futures as cf, multiprocessing as mp\ndef square(x): return x * x\n"
        "if __name__ == '__main__':\n"
        "    with cf.ProcessPoolExecutor(2, mp_context=mp.get_context('spawn')) as e: print(list(e.map(square, range(4))))\n"
        "    with cf.ThreadPoolExecutor(2) as e: print(list(e.map(square, range(4))))\n"
    ),
    "loop.py": (
        "import asyncio\nasync def main():\n    p = await asyncio.create_subprocess_exec('sh', '-c', 'echo $RANK; exit 3', stdout=-1)\n"
        "    print(await p.stdout.read(), await p.wait())\n    print(await asyncio.gather(asyncio.sleep(0, 1), asyncio.sleep(0, 2)))\n"
        "asyncio.run(main())\n"
    ),
    "children.py": (
        "import os, subprocess, sys\nprint(subprocess.run([sys.executable, '-c', "
        "'import os, sys; print(sorted(sys.modules), sys.path, sorted(os.environ), sys.meta_path)'], stdout=-1).stdout.decode())\n"
        "sys.stdout.flush(); os.system('env; ls /proc/self/fd; exit 2')\n"
    ),
    "own_fork.py": (
        "import os, sys\nos.register_at_fork(after_in_child=lambda: os.write(1, b'child '))\n"
        "sys.stdout.flush()\npid = os.fork()\nif pid == 0:\n    import fractions\n    os.write(1, b'x'); os._exit(0)\n"
        "print(os.waitpid(pid, 0)[1])\n"
    ),
    "user_module.py": "import helper\nprint(helper.__file__, helper.__spec__, helper.__cached__)\nhelper.fail()\n",
    "import_error.py": "try:\n    import helper.nothing\nexcept ImportError as e:\n    print(repr(e), e.name, e.path)\nimport does_not_exist\n",
    "timer.py": "import signal\nsignal.signal(signal.SIGALRM, lambda *a: print('alarm'))\nsignal.setitimer(signal.ITIMER_REAL, 0.01)\nsignal.pause()\n",
    "tracer.py": "import sys\nseen = []\ndef trace(f, e, a):\n    seen.append(f.f_code.co_name); return None\nsys.settrace(trace)\ndef f(): pass\nf()\nimport colorsys\nsys.settrace(None)\nprint(seen[:1], 'f' in seen)\n",
    "main_again.py": "import sys\nimport __main__\nprint(__main__ is sys.modules['__main__'], __main__.__file__ if hasattr(__main__, '__file__') else None)\nimport main_again\n",
}

PACKAGE = {
    "pkg/__init__.py": "print('package', __name__)\n",
    "pkg/__main__.py": "import json, sys\nprint(__name__, __package__, repr(__spec__), sys.argv, sys.path[0])\nfrom . import part\n",
    "pkg/part.py": "print(__name__, __package__)\nif __name__ == '__main__':\n    1 / 0\n",
    "pkg/probe.py": PROBE,
    "helper.py": "import json\ndef fail():\n    raise LookupError(__name__)\n",
}

PROGRAMS = {**_ENDS, **_LIBRARIES}
FILES = {"probe.py": PROBE, **PROGRAMS, **PACKAGE}
ARCHIVE = {
    "__main__.py": "import json, sys\nprint(__name__, __file__, sys.argv, sys.path[0], repr(__spec__))\nimport inside\n",
    "inside.py": "1 / 0\n",
}
