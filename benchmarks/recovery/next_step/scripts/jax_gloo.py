"""JAX, with gradients from all processes over gloo; JAX_COMPILATION_CACHE_DIR is in memory."""

import marks

marks.begin("jax")
import os  # noqa: E402

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax.experimental import multihost_utils  # noqa: E402

marks.mark("imported")
SIZE = 64

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.distributed.initialize(
    coordinator_address=f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}",
    num_processes=int(os.environ["WORLD_SIZE"]),
    process_id=int(os.environ["RANK"]),
)
marks.mark("process group")
gradient = jax.jit(jax.value_and_grad(lambda weights, rows: jnp.sum(jnp.tanh(rows @ weights) ** 2)))
weights = jax.random.normal(jax.random.PRNGKey(0), (SIZE, SIZE))
rows = jax.random.normal(jax.random.PRNGKey(1 + int(os.environ["RANK"])), (4, SIZE))
marks.mark("model")


def step() -> None:
    """Train one batch."""
    global weights  # noqa: PLW0603 - a script
    _, own = gradient(weights, rows)
    every = np.asarray(multihost_utils.process_allgather(own)).reshape(-1, SIZE, SIZE)
    weights = weights - 0.01 * every.mean(0)


marks.train(step)
