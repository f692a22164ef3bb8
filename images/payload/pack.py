"""Makes /opt/elasticjob: the agent with its own interpreter, libraries, C library and loader, for any Linux image.

`python pack.py SITE_PACKAGES` runs in a build stage (images/Dockerfile.agent) that has patchelf, strip, ldd and
musl-gcc; SITE_PACKAGES has the agent and its dependencies. The result depends on nothing outside its folder. Paths are
absolute, because the folder's is fixed. Influences of an image by files or variables are cut off; README.md beside this
file lists them.
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
"""The path that an interpreter searches first."""
OS_RELEASE = Path("/etc/os-release")

NOT_OF_THE_STDLIB = (
    *("test", "tests", "idlelib", "tkinter", "turtledemo", "turtle.py", "ensurepip", "lib2to3", "distutils"),
    *("pydoc_data", "__pycache__", "config-*", "site-packages", "dist-packages", "sitecustomize.py", "sqlite3"),
    *("curses", "_tkinter*", "_dbm*", "_gdbm*", "_sqlite3*", "_curses*", "readline*.so", "nis.*", "_crypt.*"),
    *("_test*", "_xx*", "xx*", "_ctypes_test*", "unittest", "doctest.py", "pydoc.py", "pdb.py", "venv", "zipapp.py"),
    # Modules for mail, the web, sound, windows and other alphabets: an agent connects only to etcd and its workers.
    *("wsgiref", "xmlrpc", "xml", "mailbox.py", "imaplib.py", "smtp*.py", "nntplib.py", "ftplib.py", "poplib.py"),
    *("telnetlib.py", "cgi*.py", "webbrowser.py", "audioop*", "ossaudiodev*", "aifc.py", "wave.py", "sunau.py"),
    *("msilib", "_codecs_*", "_multibytecodec*", "_zoneinfo*", "zoneinfo", "tomllib", "dbm", "_lsprof*"),
    "_hashlib*",  # Python has the hashes that an agent needs without OpenSSL
)
NOT_OF_PACKAGES = ("test", "tests", "__pycache__", "*.pyi", "*.pyx", "*.pxd", "*.pxi", "*.h", "py.typed", "*.dist-info")
KEPT_SOURCES = re.compile(r"/user_python/|/etcd3/etcdrpc/\w+_pb2\.py$")
"""Modules that the user's Python runs, and the files from which elasticjob_etcd reads its descriptors."""
LOADED_BY_NAME = ("libgcc_s.so.1", "libresolv.so.2")
"""Libraries that others open without being linked to them: to end threads, and to resolve names."""

PATCHED_LOADER = {b"/etc/ld.so.preload": b"/opt/elasticjob/np", b"/etc/ld.so.cache": b"/dev/null"}
PATCHED_LIBC = {b"/etc/nsswitch.conf": b"/opt/elasticjob/ns"}
PATCHED_OPENSSL = {b"/usr/lib/ssl": b"/proc/none"}
"""The folder of OpenSSL's configuration, which could name code of the image to load. Nothing can be made in /proc."""
NAME_SERVICES = "".join(f"{name}: files\n" for name in ("passwd", "group", "services", "protocols", "networks"))


def main() -> None:
    """Make the folder from scratch."""
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
    patch(next(LIB.glob("libcrypto.so.*")), PATCHED_OPENSSL)
    (HOME / "ns").write_text(f"{NAME_SERVICES}hosts: files dns\n")
    run("musl-gcc", "-static", "-Os", "-s", "-Wall", "-Werror", f'-DPYTHON="{PYTHON}"', "-o",
        HOME / "bin" / "elasticjob-agent", HERE / "launcher.c")  # fmt: skip
    shutil.copy(HERE / "NOTICE", HOME)
    shutil.copy(OS_RELEASE, LIB / "os-release")
    run("chmod", "-R", "a+rX,go-w", HOME)


def copy_modules(site_packages: Path) -> None:
    """Copy the standard library and the packages into one folder, which is the interpreter's whole path."""
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
    """Keep the licences of all packages; for our own the metadata too, which `--version` reads."""
    if info.name.startswith("elasticjob-"):
        (STDLIB / info.name).mkdir()
        shutil.copy(info / "METADATA", STDLIB / info.name)
    for text in (path for path in info.rglob("*") if re.match(r"(?i)(licen[cs]e|copying|notice)", path.name)):
        if text.is_file():
            (HOME / "licenses").mkdir(exist_ok=True)
            shutil.copy(text, HOME / "licenses" / f"{info.name.partition('-')[0]}.{text.name}")


def compile_modules() -> None:
    """Replace the sources by byte code that is never checked against them, because copying changes times."""
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    compileall.compile_dir(
        STDLIB, quiet=1, legacy=True, invalidation_mode=mode, stripdir=str(HOME), prependdir=str(HOME)
    )
    for source in STDLIB.rglob("*.py"):
        if not KEPT_SOURCES.search(str(source)):
            source.unlink()


def zip_modules() -> None:
    """Put all modules that are byte code alone into one file: creating 500 files takes most of the time of a copy.

    Our own packages are left out, because some of their modules are run as files.
    """
    of_others = [path for path in sorted(STDLIB.iterdir()) if not path.name.startswith("elasticjob")]
    namespace = STDLIB / "google"
    with zipfile.ZipFile(ZIP, "w") as archive:
        archive.writestr(zipfile.ZipInfo("google/"), b"")  # marks a package without a module for the importer
        for path in (*of_others, *sorted(namespace.iterdir())):
            if path != namespace and all(file.suffix == ".pyc" for file in files_in(path)):
                for file in files_in(path):
                    archive.writestr(zipfile.ZipInfo(str(file.relative_to(STDLIB))), file.read_bytes())
                    file.unlink()
    for folder in sorted((path for path in STDLIB.rglob("*") if path.is_dir()), reverse=True):
        if not any(folder.iterdir()):
            folder.rmdir()


def files_in(path: Path) -> list[Path]:
    """Return the file, or all files in the folder."""
    return sorted(found for found in (path, *path.rglob("*")) if found.is_file())


def copy_libraries(interpreter: Path) -> None:
    """Copy all libraries that the interpreter and its extensions are linked to, also the C library."""
    wanted = {path for file in (interpreter, *shared_objects()) for path in linked_to(file)}
    libc = next(path for path in wanted if path.name == "libc.so.6")
    for path in {*wanted, *(libc.parent / name for name in LOADED_BY_NAME)}:
        shutil.copy(path, LIB / path.name)


def linked_to(file: Path) -> Iterator[Path]:
    """Return the libraries that this machine's loader finds for a file."""
    for line in output("ldd", file).splitlines():
        name, _, place = line.strip().partition(" => ")
        if place == "not found":
            sys.exit(f"pack: {file} needs {name}, which is missing here")
        if place.startswith("/"):
            yield Path(place.rpartition(" (")[0])


def copy_loader(interpreter: Path) -> Path:
    """Copy the loader under its own name, and return its path."""
    found = Path(output("patchelf", "--print-interpreter", interpreter).strip())
    return Path(shutil.copy(found.resolve(), LIB / found.name))


def relocate(interpreter: Path, loader: Path) -> None:
    """Set RPATH and not RUNPATH, which LD_LIBRARY_PATH overrides; absolute, because $ORIGIN needs /proc."""
    objects = [path for path in shared_objects() if path != loader]
    run("strip", "--strip-unneeded", interpreter, *objects)
    run("patchelf", "--set-interpreter", loader, interpreter)
    for file in (interpreter, *objects):
        if file.name != "libc.so.6":
            run("patchelf", "--force-rpath", "--set-rpath", LIB, file)


def shared_objects() -> list[Path]:
    """Return the libraries and extensions in the folder."""
    return sorted(path for path in LIB.rglob("*.so*") if re.search(r"\.so(\.[\d.]+)?$", path.name))


def patch(file: Path, names: dict[bytes, bytes]) -> None:
    """Replace each name by another of the same length; each must occur exactly once."""
    content = file.read_bytes()
    for old, new in names.items():
        if content.count(old + b"\0") != 1 or len(new) > len(old):
            sys.exit(f"pack: {file}: {old!r} is not there exactly once, or {new!r} is longer")
        content = content.replace(old + b"\0", new.ljust(len(old) + 1, b"\0"))
    file.write_bytes(content)


def output(*command: str | Path) -> str:
    """Return a program's output; empty for a file without libraries."""
    environment = {**os.environ, "LC_ALL": "C"}
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    if done.returncode and "not a dynamic executable" not in done.stderr + done.stdout:
        sys.exit(f"pack: {' '.join(map(str, command))}: {done.stderr}")
    return done.stdout


def run(*command: str | Path) -> None:
    """Run a program that must succeed."""
    subprocess.run(command, check=True)


def sizes(files: Iterable[Path]) -> int:
    """Return the bytes of these files."""
    return sum(file.stat().st_size for file in files if file.is_file())


if __name__ == "__main__":
    main()
    everything = list(HOME.rglob("*"))
    print(f"pack: {HOME}: {len(everything)} files, {sizes(everything) / 1e6:.1f} MB")
