"""`--rdzv-conf`: torchrun's keys, our own, and torchrun's keys without an effect."""

import pytest

from elasticjob_agent.cli.rdzv_conf import RdzvConf, parse_conf
from elasticjob_agent.errors import UsageError


@pytest.mark.parametrize(
    ("text", "conf"),
    [
        ("", RdzvConf()),
        ("join_timeout=60", RdzvConf(join_timeout_s=60.0)),
        ("timeout=900", RdzvConf(join_timeout_s=900.0)),
        ("timeout=900,join_timeout=60", RdzvConf(join_timeout_s=60.0)),
        ("last_call_timeout=5, keep_alive=2.5,", RdzvConf(last_call_timeout_s=5.0, keep_alive_s=2.5)),
        ("last_call_timeout=0", RdzvConf(last_call_timeout_s=0.0)),
        ("keep_alive_interval=2", RdzvConf(keep_alive_s=6.0)),
        ("keep_alive_interval=2,keep_alive_max_attempt=4", RdzvConf(keep_alive_s=8.0)),
        ("progress_deadline=300", RdzvConf(progress_deadline_s=300.0)),
        (
            "restart_window=3600,backoff=0,backoff_max=60",
            RdzvConf(restart_window_s=3600.0, backoff_initial_s=0.0, backoff_max_s=60.0),
        ),
        ("is_host=True", RdzvConf(is_host=True)),
        ("is_host=0", RdzvConf(is_host=False)),
        ("etcd_port=2379", RdzvConf(etcd_port=2379)),
        ("protocol=https,cacert=/ca,cert=/c,key=/k", RdzvConf(ca_cert="/ca", cert="/c", key="/k")),
        ("ssl_cert=/c,ssl_cert_key=/k,ca_cert=/ca", RdzvConf(ca_cert="/ca", cert="/c", key="/k")),
        ("close_timeout=30,store_type=tcp", RdzvConf(unused=("close_timeout", "store_type"))),
        ("join_timeout=1,join_timeout=2", RdzvConf(join_timeout_s=2.0)),
    ],
)
def test_settings(text: str, conf: RdzvConf) -> None:
    assert parse_conf(text) == conf


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("join_timeout", "join_timeout: it must be KEY=VALUE"),
        ("join_timeout=", "join_timeout=: it must be KEY=VALUE"),
        ("join_timeout=soon", "join_timeout=soon: it must be a number above 0"),
        ("keep_alive=nan", "keep_alive=nan: it must be a number above 0"),
        ("timeout=inf", "timeout=inf: it must be a number above 0"),
        ("last_call_timeout=-1", "last_call_timeout=-1: it must be 0 or a number above 0"),
        ("backoff=-1", "backoff=-1: it must be 0 or a number above 0"),
        ("restart_window=inf", "restart_window=inf: it must be 0 or a number above 0"),
        ("colour=1", "colour=1: known keys are backoff, backoff_max, ca_cert, cacert"),
        ("is_host=perhaps", "is_host=perhaps: it must be true or false"),
        ("etcd_port=0", "etcd_port=0: it must be a port"),
        ("protocol=https", "protocol=https: name the CA"),
    ],
)
def test_wrong_settings_are_refused(text: str, why: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_conf(text)
    assert str(refused.value).startswith(f"--rdzv-conf {why}")
