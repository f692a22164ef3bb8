"""Certificates and users of jobs, with a real operator, the release's permissions, and real API server and etcd."""

import asyncio
import json
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

import pytest

from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.errors import EtcdError
from elasticjob_etcd.interface import Put, Txn
from elasticjob_operator.policy.etcd.quota import MIB, MIN_BYTES
from elasticjob_operator.tls.ca import CertificateAuthority, describe
from testing.kube.jobs import waiting_job
from testing.kube.stack import SYSTEM, KubeStack
from testing.kube.tls_stack import Pods, Release
from testing.servers.secured_etcd import SecuredEtcd, administrator, program
from testing.waiting import aeventually

pytestmark = [pytest.mark.kube, pytest.mark.timeout(1000)]

T = TypeVar("T")


@pytest.fixture
def release(rig: KubeStack) -> Iterator[Release]:
    """Return a release whose authority is that of a running etcd."""
    folder = rig.folder / "secured"
    folder.mkdir()
    made = Release(rig, SecuredEtcd(folder, program()))
    made.provide_ca()
    rig.etcd = made.etcd.issue_certificate("root")
    yield made
    made.etcd.kill()


@pytest.fixture
def pods(release: Release) -> Iterator[Pods]:
    made = Pods(release)
    yield made
    made.close()


def as_administrator(release: Release, ask: Callable[[EtcdClient], Awaitable[T]]) -> T:
    async def work() -> T:
        async with administrator(release.etcd) as client:
            return await ask(client)

    return asyncio.run(work())


def users(release: Release) -> set[str]:
    return set(as_administrator(release, lambda client: client.auth.users())) - {"root"}


def certificate(release: Release, uid: str) -> bytes:
    """Return the current certificate of the job j."""
    return release.secret(f"j-etcd-{uid[:8]}", release.stack.namespace.name)["tls.crt"]


def test_a_job_gets_a_certificate_of_its_own_and_runs_with_it(release: Release, pods: Pods, rig: KubeStack) -> None:
    release.start_operator()
    uid = rig.namespace.apply(waiting_job(rig, replicas=2))["metadata"]["uid"]
    pods.start(2)
    rig.running(nodes=2, round_=1)
    told = describe(certificate(release, uid))
    assert told is not None
    assert told.name == uid
    assert told.not_before_s < time.time() - 200
    assert time.time() + 80_000 < told.not_after_s < time.time() + 86_500
    assert users(release) == {uid}


def test_the_secret_is_deleted_with_the_job_and_only_the_trainer_has_its_files(
    release: Release, rig: KubeStack
) -> None:
    release.start_operator()
    sidecar = {"name": "sidecar", "image": "example/sidecar:1"}
    job = waiting_job(rig)
    job["spec"]["template"]["spec"]["containers"].append(sidecar)
    uid = rig.namespace.apply(job)["metadata"]["uid"]
    [pod] = rig.until("a pod", rig.pods)
    trainer, other = pod["spec"]["containers"]
    [volume] = [volume for volume in pod["spec"]["volumes"] if "secret" in volume]
    assert volume["secret"]["secretName"] == f"j-etcd-{uid[:8]}"
    [mount] = [mount for mount in trainer["volumeMounts"] if mount["name"] == volume["name"]]
    assert mount["readOnly"]
    assert "volumeMounts" not in other
    assert not any("BEGIN" in str(env) for env in trainer["env"])
    owners = rig.namespace.kubectl(
        "get", "secret", volume["secret"]["secretName"], "-o", "jsonpath={..ownerReferences}"
    )
    assert f'"uid":"{uid}"' in owners


@pytest.mark.nightly
def test_a_running_job_gets_the_next_certificate_without_a_new_round(
    release: Release, pods: Pods, rig: KubeStack
) -> None:
    release.start_operator("--certificate-life", "60")
    uid = rig.namespace.apply(waiting_job(rig, replicas=2))["metadata"]["uid"]
    pods.start(2)
    rig.running(nodes=2, round_=1)
    first = certificate(release, uid)
    rig.until("another certificate", lambda: certificate(release, uid) != first, within_s=90)
    pods.remount()
    pods.log_contains("dialed etcd with the renewed certificate")
    rig.finish.touch()
    assert pods.end() == [0, 0]
    rig.phase("Succeeded")
    assert rig.status()["rendezvousRound"] == 1
    assert rig.status()["restarts"] == 0


def test_the_user_is_removed_with_the_job(release: Release, rig: KubeStack) -> None:
    release.start_operator()
    uid = rig.namespace.apply(waiting_job(rig))["metadata"]["uid"]
    rig.until("a pod", rig.pods)
    assert users(release) == {uid}
    rig.namespace.kubectl("delete", "ejob", "j", "--wait=false")
    rig.until("no user", lambda: not users(release))
    assert not rig.etcd_keys()


def test_jobs_that_are_deleted_as_soon_as_they_are_created_leave_no_user(release: Release, rig: KubeStack) -> None:
    release.start_operator()
    for _ in range(30):
        rig.create_job(waiting_job(rig))
        rig.delete_job("j")
    rig.create_job(waiting_job(rig, "next"))
    rig.until("the next job's pod", lambda: any(name.startswith("next-") for name in rig.pod_names()))
    rig.delete_job("next")

    def tidy() -> bool:
        for pod in rig.pods():
            rig.forget_pod(pod["metadata"]["name"])  # as the garbage collector does
        return not users(release)

    rig.until("no user", tidy)
    assert not rig.etcd_keys()


def test_the_user_is_removed_with_the_job_although_a_finalizer_keeps_its_pod(release: Release, rig: KubeStack) -> None:
    release.start_operator()
    rig.namespace.apply(waiting_job(rig))
    [pod] = rig.until("a pod", rig.pod_names)
    hold = json.dumps({"metadata": {"finalizers": ["example.com/for-ever"]}})
    rig.namespace.kubectl("patch", "pod", pod, "--type=merge", "-p", hold)
    try:
        rig.namespace.kubectl("delete", "ejob", "j", "--wait=false")
        rig.until("no user", lambda: not users(release), within_s=60)
        assert pod in rig.namespace.kubectl("get", "pods", "-o", "name")
        assert not rig.etcd_keys()
    finally:
        rig.namespace.kubectl("patch", "pod", pod, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')


def test_a_refused_job_loses_its_user_too_when_it_fills_etcd(release: Release, rig: KubeStack) -> None:
    """The job gets its certificate, and then an invalid template."""
    release.start_operator()
    uid = rig.namespace.apply(waiting_job(rig))["metadata"]["uid"]
    rig.until("a pod", rig.pods)
    keys = rig.keys()
    bad = {"name": "trainer", "image": "i", "command": ["x"], "env": [{"name": "ELASTICJOB_SLOT", "value": "0"}]}
    rig.patch_job("j", {"suspend": True, "template": {"spec": {"containers": [bad]}}})
    rig.until("it is refused", lambda: rig.condition("Accepted").get("status") == "False")
    as_the_job(release, uid, lambda etcd: fill(etcd, keys.everything))
    rig.until("no user", lambda: not users(release))
    rig.until("no key", lambda: not rig.etcd_range(keys.everything).kvs)


async def fill(etcd: EtcdClient, prefix: str) -> None:
    """Write below the job's prefix, as a holder of its certificate, beyond its quota and until etcd refuses."""
    for number in range(MIN_BYTES // MIB):
        await etcd.txn(Txn((), (Put(f"{prefix}x/{number}", bytes(MIB)),)))

    async def is_refused() -> bool:
        try:
            await etcd.txn(Txn((), (Put(f"{prefix}x/more", b"more"),)))
        except EtcdError as error:
            return "permission denied" in str(error)
        return False

    refused: bool = await aeventually(is_refused, within_s=60, what="nothing more is taken")
    assert refused


def as_the_job(release: Release, uid: str, ask: Callable[[EtcdClient], Awaitable[T]]) -> T:
    """Call etcd with the certificate of the job j."""
    folder = release.stack.folder / "stolen"
    folder.mkdir()
    for name, text in release.secret(f"j-etcd-{uid[:8]}", release.stack.namespace.name).items():
        (folder / name).write_bytes(text)

    async def work() -> T:
        client = EtcdClient(release.etcd.endpoint(folder))
        try:
            return await ask(client)
        finally:
            await client.close()

    return asyncio.run(work())


def test_only_a_job_whose_certificate_fills_etcd_loses_it_and_fails(release: Release, rig: KubeStack) -> None:
    release.start_operator()
    uid = rig.namespace.apply(waiting_job(rig))["metadata"]["uid"]
    other = rig.namespace.apply(waiting_job(rig, "other"))["metadata"]["uid"]
    rig.until("their pods", lambda: len(rig.pod_names()) == 2)
    prefix = rig.keys().everything
    as_the_job(release, uid, lambda etcd: fill(etcd, prefix))
    assert rig.phase("Failed")["reason"] == "FootprintExceeded"
    assert "65 MiB are below its prefix in etcd, and a job of its size may have 64 MiB" in rig.status()["message"]
    rig.until("nothing of it", lambda: not rig.etcd_range(prefix).kvs)
    rig.until("one pod", lambda: [name.rpartition("-")[0] for name in rig.pod_names()] == ["other-0"])
    assert users(release) == {other}
    assert rig.slots(rig.keys("other"))
    assert ("Failed", f"FootprintExceeded: {rig.status()['message']}") in rig.events()


@pytest.mark.nightly
def test_a_deleted_job_with_an_invalid_map_leaves_neither_keys_nor_a_user(release: Release, rig: KubeStack) -> None:
    """The contents of a prefix, including its owner, are claims of the job."""
    release.start_operator()
    uid = rig.namespace.apply(waiting_job(rig))["metadata"]["uid"]
    rig.until("a pod", rig.pods)
    keys = rig.keys()
    as_the_job(
        release, uid, lambda etcd: etcd.txn(Txn((), (Put(keys.spec, b"spoilt"), Put(keys.everything + "x", b""))))
    )
    rig.namespace.kubectl("delete", "ejob", "j", "--wait=false")
    for pod in rig.pod_names():
        rig.forget_pod(pod)
    rig.until("it is gone", lambda: not rig.job())
    rig.kill_operator()
    release.start_operator()
    rig.until("no user", lambda: not users(release))
    rig.until("no key", lambda: not rig.etcd_range(keys.everything).kvs)


@pytest.mark.nightly
def test_users_of_deleted_jobs_are_removed_and_those_of_others_are_not(release: Release, rig: KubeStack) -> None:
    lost, other = str(uuid.uuid4()), str(uuid.uuid4())

    async def leave(client: EtcdClient) -> None:
        mine, theirs = f"elasticjob/{rig.cluster_id}", "elasticjob/another"
        await client.auth.add_user(lost, role=f"{mine}/{rig.namespace.name}/lost/{lost}", prefix="/l/")
        await client.auth.add_user(other, role=f"{theirs}/{rig.namespace.name}/lost/{other}", prefix="/o/")

    as_administrator(release, leave)
    release.start_operator()
    rig.until("the leftover is gone", lambda: users(release) == {other})


@pytest.mark.nightly
def test_an_etcd_that_lost_its_data_gets_authentication_again_and_the_job_continues(
    release: Release, pods: Pods, rig: KubeStack
) -> None:
    release.start_operator()
    uid = rig.namespace.apply(waiting_job(rig, replicas=2))["metadata"]["uid"]
    pods.start(2)
    rig.running(nodes=2, round_=1)
    release.etcd.wipe()
    assert rig.operator is not None
    rig.until("authentication", lambda: rig.operator and rig.operator.text().count("refuses clients without") == 2)
    rig.until("the user again", lambda: users(release) == {uid})
    rig.until("both nodes again", lambda: rig.status().get("readyReplicas") == 2, within_s=60)
    rig.finish.touch()
    assert pods.end() == [0, 0]
    assert rig.phase("Succeeded")["restarts"] == 0


@pytest.mark.nightly
def test_the_operator_fills_the_releases_secrets_once(release: Release, rig: KubeStack) -> None:
    rig.namespace.server.kubectl("patch", "secret", release.ca, "--type=merge", '-p={"data":null}', namespace=SYSTEM)
    release.start_operator()
    rig.until("etcd's certificate", lambda: "tls.crt" in release.secret(release.server))
    made, server = release.secret(release.ca), release.secret(release.server)
    told = describe(server["tls.crt"])
    assert told is not None
    assert told.hosts == {"127.0.0.1"}
    assert CertificateAuthority(made["tls.crt"], made["tls.key"]).has_signed(server["tls.crt"])
    assert rig.operator is not None
    rig.operator.stop()
    release.apply()  # an upgrade
    release.start_operator()
    again = rig.operator  # its log continues after that of the first one
    rig.until("it is at work again", lambda: again.text().count("keys begin with") == 2)
    assert (release.secret(release.ca), release.secret(release.server)) == (made, server)


@pytest.mark.nightly
def test_the_authority_is_read_by_the_operator_alone_which_reads_no_other_secret(release: Release) -> None:
    def may(account: str, what: str) -> str:
        question = ("auth", "can-i", *what.split(), f"--as=system:serviceaccount:{SYSTEM}:{account}")
        return release.stack.namespace.server.kubectl(*question, namespace=SYSTEM).stdout.strip()

    operator, key = f"{release.name}-elasticjob-operator", f"secret/{release.ca}"
    assert may(operator, f"get {key}") == "yes"
    assert may("default", f"get {key}") == "no"
    assert [may(operator, f"{verb} secrets") for verb in ("get", "list", "watch", "patch", "delete")] == ["no"] * 5


@pytest.mark.nightly
def test_an_unusable_authority_is_one_message(release: Release, rig: KubeStack) -> None:
    patch = '-p={"data":{"tls.key":"bm8="}}'
    rig.namespace.server.kubectl("patch", "secret", release.ca, "--type=merge", patch, namespace=SYSTEM)
    release.start_operator()
    assert rig.operator is not None
    rig.operator.wait_for_output("the operator ends: the certificate authority cannot be used")
    assert rig.operator.wait() == 1
    assert "Traceback" not in rig.operator.text()


@pytest.mark.nightly
def test_the_three_steps_of_the_page_change_the_authority_without_a_round(
    release: Release, pods: Pods, rig: KubeStack
) -> None:
    release.start_operator()
    uid = rig.namespace.apply(waiting_job(rig, replicas=2))["metadata"]["uid"]
    pods.start(2)
    rig.running(nodes=2, round_=1)
    old, new = release.etcd.ca, CertificateAuthority.create(now_s=time.time())
    for step in (
        CertificateAuthority(old.certificate, old.key, also_trusted=new.certificate),
        CertificateAuthority(new.certificate, new.key, also_trusted=old.certificate),
        new,
    ):
        change_over(release, step, uid)
        pods.remount()
        release.etcd.kill()
        release.etcd.start()
        rig.etcd = release.etcd.issue_certificate("root")
        rig.until("both nodes", lambda: rig.status().get("readyReplicas") == 2, within_s=60)
    rig.finish.touch()
    assert pods.end() == [0, 0]
    status = rig.phase("Succeeded")
    assert (status["rendezvousRound"], status["restarts"], status["nodeLosses"]) == (1, 0, 0)


def change_over(release: Release, authority: CertificateAuthority, uid: str) -> None:
    """Restart the operator with this authority in its Secret, and give etcd the files that it then writes."""
    release.etcd.ca = authority
    trusted = authority.trusted.removeprefix(authority.certificate.rstrip() + b"\n")
    release.provide_ca({"ca.crt": trusted})
    assert release.stack.operator is not None
    release.stack.operator.stop()
    release.start_operator()

    def made(secret: dict[str, bytes]) -> bool:
        return authority.has_signed(secret["tls.crt"]) and secret["ca.crt"] == authority.trusted

    release.stack.until("etcd's certificate", lambda: made(release.secret(release.server)))
    job = f"j-etcd-{uid[:8]}"
    release.stack.until("the job's", lambda: made(release.secret(job, release.stack.namespace.name)), within_s=60)
    release.mount_server()
