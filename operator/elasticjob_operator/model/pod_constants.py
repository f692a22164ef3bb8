"""The operator's names and paths inside a pod, in one place for all code that reserves or uses them."""

from elasticjob_api import constants

AGENT_VOLUME = "elasticjob-agent"
AGENT_HOME = "/opt/elasticjob"
"""The agent's payload is built for this path."""
INJECTED_AGENT = f"{AGENT_HOME}/bin/elasticjob-agent"
PROVIDED_AGENT = "elasticjob-agent"

INIT_CONTAINER = "elasticjob-inject"
INJECT_TARGET = "/elasticjob-target"
"""Mount path of the volume in the init container, because that has its own payload at AGENT_HOME."""

SHM_VOLUME = "elasticjob-shm"
SHM_PATH = "/dev/shm"  # noqa: S108 -- a mount point inside the pod, not a temporary file of ours
LOG_VOLUME = "elasticjob-logs"
LOG_DIR = "/var/log/elasticjob"

KEEP_VOLUME = "elasticjob-keep"
KEEP_DIR = constants.KEEP_DIR

CREDENTIALS_VOLUME = "elasticjob-etcd-tls"
CREDENTIALS_DIR = "/var/run/elasticjob/etcd"
"""Directory of the job's certificate for the agent."""

TERMINATION_LOG = "/dev/termination-log"
INTERFACES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
"""Variables that set the network interface of the workers' libraries."""
OMP_NUM_THREADS = "OMP_NUM_THREADS"

GRACE_MARGIN_S = 10
"""Seconds beyond the workers' grace, for the agent to write its last records before the kubelet kills it."""
