"""Makes /opt/elasticjob: the agent with its own interpreter, libraries, C library and loader, for any Linux image.

`python pack.py SITE_PACKAGES` is run in a build stage (images/Dockerfile.agent) that has patchelf, strip, ldd and
musl-gcc; SITE_PACKAGES has the agent and what it depends on. The result depends on nothing outside its folder: paths
are absolute, since the folder's is fixed, and what an image could interfere with by a file or a variable is cut off.
README.md beside this file has the list of what that is.
"""

import compileall
import os
import py_compile
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
HOME = Path("/opt/elasticjob")
PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
LIB = HOME / "lib"
STDLIB = LIB / PYTHON
ZIP = LIB / f"python{sys.version_info.major}{sys.version_info.minor}.zip"
"""Where an interpreter looks first."""
OS_RELEASE = Path("/etc/os-release")

NOT_OF_THE_STDLIB = (
    *("test", "tests", "idlelib", "tkinter", "turtledemo", "turtle.py", "ensurepip", "lib2to3", "distutils"),
    *("pydoc_data", "__pycache__", "config-*", "site-packages", "dist-packages", "sitecustomize.py", "sqlite3"),
    *("curses", "_tkinter*", "_dbm*", "_gdbm*", "_sqlite3*", "_curses*", "readline*.so", "nis.*", "_crypt.*"),
    *("_test*", "_xx*", "xx*", "_ctypes_test*", "unittest", "doctest.py", "pydoc.py", "pdb.py", "venv", "zipapp.py"),
    # What is for mail, the web, sound, windows and other alphabets: an agent speaks to etcd and to its workers.
    *("wsgiref", "xmlrpc", "xml", "mailbox.py", "imaplib.py", "smtp*.py", "nntplib.py", "ftplib.py", "poplib.py"),
    *("telnetlib.py", "cgi*.py", "webbrowser.py", "audioop*", "ossaudiodev*", "aifc.py", "wave.py", "sunau.py"),
    *("msilib", "_codecs_*", "_multibytecodec*", "_zoneinfo*", "zoneinfo", "tomllib", "dbm", "_lsprof*"),
    # Python's TLS: gRPC has its own. With it OpenSSL would be ours to keep patched, and 6 MB more in each pod.
    *("_ssl*", "_hashlib*"),
)
NOT_OF_PACKAGES = ("test", "tests", "__pycache__", "*.pyi", "*.pyx", "*.pxd", "*.pxi", "*.h", "py.typed", "*.dist-info")
KEPT_SOURCES = re.compile(r"/user_python/|/etcd3/etcdrpc/\w+_pb2\.py$")
"""What the user's Python runs, and the files out of which elasticjob_etcd reads its descriptors."""
LOADED_BY_NAME = ("libgcc_s.so.1", "libresolv.so.2")
"""Libraries that others open without being linked to them: to end threads, and to look names up."""

PATCHED_LOADER = {b"/etc/ld.so.preload": b"/opt/elasticjob/np", b"/etc/ld.so.cache": b"/dev/null"}
PATCHED_LIBC = {b"/etc/nsswitch.conf": b"/opt/elasticjob/ns"}
NAME_SERVICES = "".join(f"{name}: files\n" for name in ("passwd", "group", "services", "protocols", "networks"))


def main() -> None:
    """Make the folder anew."""
    site_packages = Path(sys.argv[1])
    shutil.rmtree(HOME, ignore_errors=True)
    (HOME / "bin").mkdir(parents=True)
    interpreter = Path(shutil.copy(Path(sys.executable).resolve(), HOME / "bin" / PYTHON))
    copy_modules(site_packages)
    compile_modules()
    zip_modules()
    copy_libraries(interpreter)
    loader = copy_loader(interpreter)
    relocate(interpreter, loader)
    patch(loader, PATCHED_LOADER)
    patch(LIB / "libc.so.6", PATCHED_LIBC)
    (HOME / "ns").write_text(f"{NAME_SERVICES}hosts: files dns\n")
    run("musl-gcc", "-static", "-Os", "-s", "-Wall", "-Werror", f'-DPYTHON="{PYTHON}"', "-o",
        HOME / "bin" / "elasticjob-agent", HERE / "launcher.c")  # fmt: skip
    shutil.copy(HERE / "NOTICE", HOME)
    shutil.copy(OS_RELEASE, LIB / "os-release")
    run("chmod", "-R", "a+rX,go-w", HOME)


def copy_modules(site_packages: Path) -> None:
    """The standard library and the packages into one folder, which is all of the interpreter's path."""
    ignored = shutil.ignore_patterns(*NOT_OF_THE_STDLIB, "*.rst")
    shutil.copytree(sysconfig.get_path("stdlib"), STDLIB, ignore=ignored)
    shutil.copytree(
        site_packages,
        STDLIB,
        ignore=shutil.ignore_patterns(
            *NOT_OF_PACKAGES, "elasticjob", "elasticjob_operator", "elasticjob_cli", "*.pth", "bin"
        ),
        dirs_exist_ok=True,
    )
    shutil.copy(HERE / "elasticjob_payload.py", STDLIB)
    for info in site_packages.glob("*.dist-info"):
        keep_info(info)


def keep_info(info: Path) -> None:
    """Licences of all packages; of our own the metadata too, which `--version` reads."""
    if info.name.startswith("elasticjob-"):
        (STDLIB / info.name).mkdir()
        shutil.copy(info / "METADATA", STDLIB / info.name)
    for text in (path for path in info.rglob("*") if re.match(r"(?i)(licen[cs]e|copying|notice)", path.name)):
        if text.is_file():
            (HOME / "licenses").mkdir(exist_ok=True)
            shutil.copy(text, HOME / "licenses" / f"{info.name.partition('-')[0]}.{text.name}")


def compile_modules() -> None:
    """Byte code in the sources' place; never checked against them, for copying changes times."""
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    compileall.compile_dir(
        STDLIB, quiet=1, legacy=True, invalidation_mode=mode, stripdir=str(HOME), prependdir=str(HOME)
    )
    for source in STDLIB.rglob("*.py"):
        if not KEPT_SOURCES.search(str(source)):
            source.unlink()


def zip_modules() -> None:
    """Into one file whatever is byte code alone: to make 500 files in a volume takes longer than all else of a copy.

    Not our own packages, for some of their modules are run as files.
    """
    of_others = [path for path in sorted(STDLIB.iterdir()) if not path.name.startswith("elasticjob")]
    namespace = STDLIB / "google"
    with zipfile.ZipFile(ZIP, "w") as archive:
        archive.writestr(zipfile.ZipInfo("google/"), b"")  # by which an importer knows a package without a module
        for path in (*of_others, *sorted(namespace.iterdir())):
            if path != namespace and all(file.suffix == ".pyc" for file in files_in(path)):
                for file in files_in(path):
                    archive.writestr(zipfile.ZipInfo(str(file.relative_to(STDLIB))), file.read_bytes())
                    file.unlink()
    for folder in sorted((path for path in STDLIB.rglob("*") if path.is_dir()), reverse=True):
        if not any(folder.iterdir()):
            folder.rmdir()


def files_in(path: Path) -> list[Path]:
    """The file, or all in the folder."""
    return sorted(found for found in (path, *path.rglob("*")) if found.is_file())


def copy_libraries(interpreter: Path) -> None:
    """Everything that the interpreter and its extensions are linked to, the C library too."""
    wanted = {path for file in (interpreter, *shared_objects()) for path in linked_to(file)}
    libc = next(path for path in wanted if path.name == "libc.so.6")
    for path in {*wanted, *(libc.parent / name for name in LOADED_BY_NAME)}:
        shutil.copy(path, LIB / path.name)


def linked_to(file: Path) -> Iterator[Path]:
    """The libraries that this machine's loader finds for it."""
    for line in output("ldd", file).splitlines():
        name, _, place = line.strip().partition(" => ")
        if place == "not found":
            sys.exit(f"pack: {file} needs {name}, which is not here")
        if place.startswith("/"):
            yield Path(place.rpartition(" (")[0])


def copy_loader(interpreter: Path) -> Path:
    """The loader itself, named as it is."""
    found = Path(output("patchelf", "--print-interpreter", interpreter).strip())
    return Path(shutil.copy(found.resolve(), LIB / found.name))


def relocate(interpreter: Path, loader: Path) -> None:
    """RPATH and not RUNPATH, which LD_LIBRARY_PATH would beat; absolute, for $ORIGIN needs /proc."""
    objects = [path for path in shared_objects() if path != loader]
    run("strip", "--strip-unneeded", interpreter, *objects)
    run("patchelf", "--set-interpreter", loader, interpreter)
    for file in (interpreter, *objects):
        if file.name != "libc.so.6":
            run("patchelf", "--force-rpath", "--set-rpath", LIB, file)


def shared_objects() -> list[Path]:
    """Libraries and extensions in the folder."""
    return sorted(path for path in LIB.rglob("*.so*") if re.search(r"\.so(\.[\d.]+)?$", path.name))


def patch(file: Path, names: dict[bytes, bytes]) -> None:
    """Put another file's name in place of each, with the same length; each must be there once."""
    content = file.read_bytes()
    for old, new in names.items():
        if content.count(old + b"\0") != 1 or len(new) > len(old):
            sys.exit(f"pack: {file}: {old!r} is not there exactly once, or {new!r} is longer")
        content = content.replace(old + b"\0", new.ljust(len(old) + 1, b"\0"))
    file.write_bytes(content)


def output(*command: str | Path) -> str:
    """What a program prints; nothing for what has no libraries."""
    environment = {**os.environ, "LC_ALL": "C"}
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    if done.returncode and "not a dynamic executable" not in done.stderr + done.stdout:
        sys.exit(f"pack: {' '.join(map(str, command))}: {done.stderr}")
    return done.stdout


def run(*command: str | Path) -> None:
    """Run a program that must succeed."""
    subprocess.run(command, check=True)


def sizes(files: Iterable[Path]) -> int:
    """Bytes of these files."""
    return sum(file.stat().st_size for file in files if file.is_file())


if __name__ == "__main__":
    main()
    everything = list(HOME.rglob("*"))
    print(f"pack: {HOME}: {len(everything)} files, {sizes(everything) / 1e6:.1f} MB")
