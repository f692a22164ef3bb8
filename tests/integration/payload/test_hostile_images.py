"""Hostile images, each fault by itself and all at once: variables and files that change other programs."""

import platform
from pathlib import Path

import pytest

from testing.containers import GLIBC, MUSL, OLD_GLIBC, Payload, docker
from tests.integration.payload.conftest import Run

pytestmark = [pytest.mark.etcd, pytest.mark.timeout(1500)]

PYTHON = "python:3.11-slim-bookworm"
"""The image from which the payload is made."""
BROKEN_LIBRARIES = (
    "libz.so.1",
    "libm.so.6",
    "libexpat.so.1",
    "libssl.so.3",
    "libcrypto.so.3",
    "libgcc_s.so.1",
    "libffi.so.8",
)
BROKEN_MODULES = ("asyncio", "grpc", "psutil", "encodings", "sitecustomize", "usercustomize")
VARIABLES = {
    "LD_LIBRARY_PATH": "/hostile/lib",
    "LD_PRELOAD": "/hostile/lib/preloaded.so",
    "LD_BIND_NOW": "1",
    "PYTHONPATH": "/hostile/python",
    "PYTHONHOME": "/hostile/python",
    "PYTHONSTARTUP": "/hostile/python/asyncio.py",
    "PYTHONWARNINGS": "error",
    "OPENSSL_CONF": "/hostile/openssl.cnf",
    "SSL_CERT_FILE": "/hostile/none.pem",
    "GRPC_VERBOSITY": "debug",
    "GRPC_DNS_RESOLVER": "none",
    "http_proxy": "http://127.0.0.1:1",
    "LC_ALL": "xx_XX.UTF-8",
    "TMPDIR": "/hostile/none",
    "MALLOC_ARENA_MAX": "1",
    "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "nonsense",
}


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A folder for /hostile: libraries that are none, modules that raise, a configuration that breaks OpenSSL."""
    for folder in ("lib", "python"):
        (tmp_path / folder).mkdir()
    for name in BROKEN_LIBRARIES:
        (tmp_path / "lib" / name).write_text("no library")
    for name in BROKEN_MODULES:
        (tmp_path / "python" / f"{name}.py").write_text(f"raise SystemExit('hostile {name}')")
    (tmp_path / "openssl.cnf").write_text("openssl_conf = none\n[")
    tmp_path.chmod(0o755)
    return tmp_path


def _options(hostile: Path, *names: str) -> tuple[str, ...]:
    variables = tuple(word for name in names for word in ("-e", f"{name}={VARIABLES[name]}"))
    return ("-v", f"{hostile}:/hostile:ro", *variables)


@pytest.mark.parametrize("name", sorted(set(VARIABLES) - {"LD_PRELOAD"}))
def test_a_variable_does_not_reach_the_agent_and_does_reach_the_worker(run_job: Run, hostile: Path, name: str) -> None:
    said = run_job(MUSL, "env", options=_options(hostile, name))
    dropped_by_the_agent = name.startswith(("GRPC_", "PROTOCOL_BUFFERS_"))
    assert (f"{name}={VARIABLES[name]}" in said) is not dropped_by_the_agent


@pytest.mark.parametrize("image", [OLD_GLIBC, GLIBC, MUSL])
def test_all_of_them_at_once(run_job: Run, hostile: Path, image: str) -> None:
    said = run_job(image, "sh", "-c", "echo here is $RANK", options=_options(hostile, *set(VARIABLES) - {"LD_PRELOAD"}))
    assert "here is 0" in said


@pytest.mark.parametrize("image", [OLD_GLIBC, GLIBC])
def test_a_library_that_is_preloaded_into_everything_is_the_workers_alone(run_job: Run, image: str) -> None:
    folder = f"/lib/{platform.machine()}-linux-gnu"
    libm = f"{folder}/libm.so.6"
    script = f"for maps in /proc/1/maps /proc/self/maps; do grep -c '{folder}/libm[.-]' $maps; done; true"
    said = run_job(image, "sh", "-c", f"echo $LD_PRELOAD; {script}", options=("-e", f"LD_PRELOAD={libm}")).splitlines()
    at = said.index(libm)
    assert said[at + 1] == "0"
    assert int(said[at + 2]) > 0


@pytest.mark.parametrize(
    ("path", "content"),
    [
        pytest.param("/etc/ld.so.preload", "/hostile/lib/libz.so.1\n", id="preload for all"),
        pytest.param("/etc/ld.so.cache", "no cache", id="broken cache"),
        pytest.param("/etc/nsswitch.conf", "hosts: none\npasswd: none\n", id="no name service"),
    ],
)
def test_a_file_of_the_image_does_not_reach_the_agent(
    run_job: Run, hostile: Path, tmp_path: Path, path: str, content: str
) -> None:
    file = tmp_path / "file"
    file.write_text(content)
    said = run_job(MUSL, "sh", "-c", "echo here is $RANK", options=(*_options(hostile), "-v", f"{file}:{path}:ro"))
    assert "here is 0" in said


def test_openssl_reads_no_configuration_of_the_image(payload: Payload, tmp_path: Path) -> None:
    """Keepers have TLS by Python's ssl. A configuration of OpenSSL could load code, or forbid TLS 1.3 as here."""
    file = tmp_path / "openssl.cnf"
    sections = ("[first]", "ssl_conf = ssl", "[ssl]", "system_default = default", "[default]", "MaxProtocol = TLSv1.2")
    file.write_text("\n".join(("openssl_conf = first", *sections, "")))
    file.chmod(0o644)
    program = "import ssl; print(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).maximum_version.name)"
    in_place = ("-v", f"{file}:/usr/lib/ssl/openssl.cnf:ro")
    assert docker("run", "--rm", *in_place, PYTHON, "python3", "-c", program).strip() == "TLSv1_2"
    mine = ("/opt/elasticjob/bin/python3.11", "-I", "-S", "-c", program)
    assert payload.run(GLIBC, *mine, options=in_place).strip() == "MAXIMUM_SUPPORTED"
