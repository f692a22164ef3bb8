"""A node as a process of its own: the kubelet of `elasticjob run` over the pods of a real API server.

`python -m testing.kube.node URL TOKEN CERTIFICATE NAMESPACE CWD FOLDER IP`. Containers run in CWD and write their files
below FOLDER; IP is the address of every pod. SIGTERM stops all pods and ends it. If it ends for any other reason, its
containers die with it.
"""

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

from elasticjob_agent.supervisor import Supervisor
from elasticjob_cli.local.containers import Host
from elasticjob_cli.local.kubelet import Kubelet
from elasticjob_operator.model.timestamps import to_rfc3339
from testing.processes.kubelet_pods import KubeletPods


def say(pod: str, lines: bytes) -> None:
    """Write the output of containers to the node's log."""
    for line in lines.splitlines():
        sys.stdout.buffer.write(pod.encode() + b" | " + line + b"\n")
    sys.stdout.buffer.flush()


async def main(arguments: list[str]) -> None:
    """Run until SIGTERM."""
    url, token, certificate, namespace, cwd, folder, ip = arguments
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    supervisor = await Supervisor.create()
    root = Path(folder)
    host = Host(
        environ=dict(os.environ),
        bin=Path(sys.executable).parent,
        cwd=Path(cwd),
        pods=root / "pods",
        volumes=root / "host",
        logs=root / "logs",
        ip=ip,
    )
    async with KubeletPods(url, token=token, certificate=Path(certificate), namespace=namespace) as pods:
        kubelet = Kubelet(pods, supervisor=supervisor, host=host, now=lambda: to_rfc3339(time.time()), write=say)
        running = asyncio.create_task(kubelet.run())
        waiting = asyncio.create_task(stopped.wait())
        await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            await kubelet.stop(0.0)
            running.cancel()
        await asyncio.gather(running, return_exceptions=stopped.is_set())
    await supervisor.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
