"""torchrun's own rendezvous (c10d), many nodes on one machine; run by a Python with torch, without our code.

One process a node, forked after one import of torch, each with torchrun's own handler; scheduled as a batch, as ours
are (`crowd`). It prints a JSON object with two times in seconds. `first` is from the order `go` until the last node has
its rank. `next` is from a second request by all, as after a failure, until the last has its next rank. A late result is
null.
"""

import json
import os
import select
import socket
import sys
import time

from torch.distributed.elastic.rendezvous import RendezvousParameters
from torch.distributed.elastic.rendezvous.registry import get_rendezvous_handler


def node(number: int, nodes: int, port: int, orders: int, answers: int) -> None:
    """One node: join at each order, and report its rank."""
    parameters = RendezvousParameters(
        backend="c10d",
        endpoint=f"127.0.0.1:{port}",
        run_id="bench",
        min_nodes=nodes,
        max_nodes=nodes,
        is_host=number == 0,
        local_addr="127.0.0.1",
        join_timeout=600,
        keep_alive_interval=5,
        last_call_timeout=1,
    )
    handler = get_rendezvous_handler(parameters)
    os.write(answers, b".")
    while os.read(orders, 1):
        handler.next_rendezvous()
        os.write(answers, b".")


def answered(pipes: list[int], until_s: float) -> bool:
    """Return whether every node has written its dot."""
    waiting = set(pipes)
    while waiting:
        ready, _, _ = select.select(waiting, [], [], max(0.0, until_s - time.monotonic()))
        if not ready:
            return False
        for pipe in ready:
            if not os.read(pipe, 1):
                return False
            waiting.discard(pipe)
    return True


def main() -> None:
    """Fork the nodes, order, measure, end them."""
    nodes, longest_s = int(sys.argv[1]), float(sys.argv[2])
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    children, orders, answers = [], [], []
    for number in range(nodes):
        order_in, order_out = os.pipe()
        answer_in, answer_out = os.pipe()
        if (pid := os.fork()) == 0:
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
            node(number, nodes, port, order_in, answer_out)
            os._exit(0)
        os.close(order_in)
        os.close(answer_out)
        children.append(pid)
        orders.append(order_out)
        answers.append(answer_in)
    took: dict[str, float | None] = {"first": None, "next": None}
    try:
        if not answered(answers, time.monotonic() + longest_s):
            raise SystemExit("the nodes did not come up")
        for what in took:
            began_s = time.monotonic()
            for order in orders:
                os.write(order, b".")
            if not answered(answers, began_s + longest_s):
                break
            took[what] = time.monotonic() - began_s
    finally:
        for pid in children:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
    print(json.dumps(took))


if __name__ == "__main__":
    main()
