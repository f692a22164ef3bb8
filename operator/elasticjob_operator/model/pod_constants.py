"""Names and places inside a pod that are ours: one place, so that what reserves them and what uses them agree."""

AGENT_VOLUME = "elasticjob-agent"
AGENT_HOME = "/opt/elasticjob"
"""The payload is built for this path."""
INJECTED_AGENT = f"{AGENT_HOME}/bin/elasticjob-agent"
PROVIDED_AGENT = "elasticjob-agent"

INIT_CONTAINER = "elasticjob-inject"
INJECT_TARGET = "/elasticjob-target"
"""Where the init container sees the volume: its own payload is at AGENT_HOME."""

SHM_VOLUME = "elasticjob-shm"
SHM_PATH = "/dev/shm"  # noqa: S108 -- a mount point inside the pod, not a temporary file of ours
LOG_VOLUME = "elasticjob-logs"
LOG_DIR = "/var/log/elasticjob"

CREDENTIALS_VOLUME = "elasticjob-etcd-tls"
CREDENTIALS_DIR = "/var/run/elasticjob/etcd"
"""Where the agent finds the job's certificate."""

TERMINATION_LOG = "/dev/termination-log"
INTERFACES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
"""What tells the workers' libraries which network interface to use."""
OMP_NUM_THREADS = "OMP_NUM_THREADS"

GRACE_MARGIN_S = 10
"""Beyond the workers' grace, for the agent to write its last records before the kubelet kills it."""
