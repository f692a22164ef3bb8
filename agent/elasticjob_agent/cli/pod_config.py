"""`NodeSettings` from the environment of a pod."""

import argparse
import logging
import socket
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from elasticjob_agent.cli import values
from elasticjob_agent.cli.keep_options import parse_keep, tls_files
from elasticjob_agent.errors import UsageError
from elasticjob_agent.net.interface_address import interface_address
from elasticjob_agent.node.keep_settings import KeepSettings, pod_linger_s
from elasticjob_agent.node.run_node import NodeSettings
from elasticjob_agent.rendezvous.member.join import NodeIdentity
from elasticjob_agent.workers.cpu_binding import parse_binding
from elasticjob_agent.workers.output import PREFIX_TEMPLATE, Output
from elasticjob_api import constants
from elasticjob_api.bootstrap import Bootstrap, decode_bootstrap
from elasticjob_api.constants import JOIN_TIMEOUT_S, WarmStart
from elasticjob_api.errors import RecordError
from elasticjob_api.keys import Keys
from elasticjob_api.one_line import one_line
from elasticjob_etcd.interface import Endpoint

log = logging.getLogger(__name__)


def from_pod(namespace: argparse.Namespace, environment: Mapping[str, str], log_dir: Path) -> NodeSettings:
    """Return the settings of an agent in a pod of the operator: `elasticjob-agent --pod -- command…`.

    Raises:
        UsageError: a variable or the command is missing, or a value is invalid.
    """

    def need(name: str) -> str:
        if not environment.get(name):
            raise UsageError(f"{name} is not set; --pod is for pods that the elasticjob operator creates")
        return environment[name]

    if not namespace.script:
        raise UsageError("the command is missing: elasticjob-agent --pod -- command…")
    values.check_choice("numa-binding", namespace)
    identity = NodeIdentity(
        keys=Keys(need(constants.ENV_PREFIX)),
        pod=need(constants.ENV_POD_NAME),
        pod_uid=need(constants.ENV_POD_UID),
        host=environment.get(constants.ENV_NODE_NAME) or socket.gethostname(),
        address=_pod_address(environment, need(constants.ENV_POD_IP)),
        nproc=int(need(constants.ENV_NPROC)),
        slot=int(need(constants.ENV_SLOT)),
        bootstrap=_bootstrap(environment),
    )
    endpoint = _endpoint(tuple(need(constants.ENV_ENDPOINTS).split(",")), environment.get(constants.ENV_ETCD_TLS))
    return NodeSettings(
        endpoint=endpoint,
        identity=identity,
        argv=(namespace.script, *namespace.script_args),
        environment=dict(environment),
        run_id=environment.get(constants.ENV_JOB_UID) or need(constants.ENV_JOB),
        log_dir=log_dir,
        join_timeout_s=_join_timeout_s(environment),
        trace=environment.get(constants.ENV_TRACE),
        termination_log=environment.get(constants.ENV_TERMINATION_LOG),
        output=Output(prefix_template=_prefix_template(environment), keeps_rank=True),
        is_warm_start=values.parse_warm_start(namespace.warm_start, environment) is WarmStart.AUTO,
        cpus=parse_binding(namespace.numa_binding, identity.nproc, environment),
        keep=_keep(namespace, environment, endpoint),
    )


def _keep(namespace: argparse.Namespace, environment: Mapping[str, str], endpoint: Endpoint) -> KeepSettings | None:
    """Return the settings of Keep, whose directory is a volume of this pod alone; None if Keep is off."""
    keep = parse_keep(namespace, environment, tls=tls_files(endpoint.cert, endpoint.key, endpoint.ca_cert))
    if keep is None:
        return None
    linger_s = pod_linger_s(keep.size_limit, persists=keep.persist is not None)
    return replace(keep, is_shared=False, linger_s=linger_s)


def _join_timeout_s(environment: Mapping[str, str]) -> float:
    """Return the manifest's joinTimeoutSeconds, or the default if an older operator does not pass it."""
    text = environment.get(constants.ENV_JOIN_TIMEOUT)
    try:
        seconds = float(text) if text else JOIN_TIMEOUT_S
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise UsageError(f"{constants.ENV_JOIN_TIMEOUT} is {text!r}; it must be a number of seconds above 0")
    return seconds


def _prefix_template(environment: Mapping[str, str]) -> str | None:
    """Return the template as one line: a line break in it would forge lines of other ranks."""
    template = environment.get(PREFIX_TEMPLATE)
    return None if template is None else one_line(template.rstrip("\r\n"))  # a block of YAML ends with a line break


def _bootstrap(environment: Mapping[str, str]) -> Bootstrap | None:
    """Return the bootstrap; None if the operator passed none or this agent cannot decode it.

    Without a bootstrap the agent reads the spec from etcd.
    """
    text = environment.get(constants.ENV_SPEC)
    if not text:
        return None
    try:
        return decode_bootstrap(text)
    except RecordError as error:
        log.warning("ignored %s, the agent reads the spec from etcd instead: %s", constants.ENV_SPEC, error)
        return None


def _pod_address(environment: Mapping[str, str], pod_ip: str) -> str:
    """Return the address of the interface that the manifest names, or the pod's IP."""
    interface = environment.get(constants.ENV_INTERFACE)
    return interface_address(interface) if interface else pod_ip


def _endpoint(targets: tuple[str, ...], folder: str | None) -> Endpoint:
    """Return the endpoint with the job's certificate that the operator mounts; without TLS if it mounts none."""
    if not folder:
        return Endpoint(targets)
    return Endpoint(targets, ca_cert=f"{folder}/ca.crt", cert=f"{folder}/tls.crt", key=f"{folder}/tls.key")
