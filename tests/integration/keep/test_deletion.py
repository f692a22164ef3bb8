"""Deletion: a rename first; then everything goes, however large, deep or protected it is."""

import os
import threading
from pathlib import Path

from elasticjob_agent.keep.volume.trash import TrashDir
from tests.integration.keep.parts import write_files

USER = 54321


def make_trash(keep_dir: Path) -> TrashDir:
    (keep_dir / "trash").mkdir(parents=True)
    return TrashDir(keep_dir / "trash")


def give_away(directory: Path) -> None:
    if os.geteuid() == 0:
        for path in (directory.parent, directory, *directory.rglob("*")):
            os.chown(path, USER, USER, follow_symlinks=False)


def empty_as_another_user(directory: Path) -> None:
    """Empty the trash without the rights of root."""
    pid = os.fork()
    if pid == 0:
        try:
            os.chdir(directory)
            if os.geteuid() == 0:
                os.setgid(USER)
                os.setuid(USER)
            TrashDir(Path("trash")).empty()
        finally:
            os._exit(0)
    os.waitpid(pid, 0)


def test_directories_of_any_depth_are_deleted(keep_dir: Path) -> None:
    trash = make_trash(keep_dir)
    fd = os.open(keep_dir, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d", dir_fd=fd)
        below = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(fd)
    trash.throw_away(keep_dir / "d")
    assert not (keep_dir / "d").exists()
    trash.empty()
    assert list((keep_dir / "trash").iterdir()) == []


def test_protected_directories_are_deleted_and_links_are_not_followed(keep_dir: Path) -> None:
    trash = make_trash(keep_dir)
    outside = write_files(keep_dir / "outside", {"file": b"x"})
    inner = write_files(keep_dir / "part" / "inner", {"file": b"x"})
    (inner / "link").symlink_to(outside)
    (keep_dir / "part" / "link").symlink_to(outside)
    inner.chmod(0)
    inner.parent.chmod(0o700)
    give_away(keep_dir)
    trash.throw_away(inner.parent)
    (keep_dir / "trash" / "0").chmod(0o500)
    empty_as_another_user(keep_dir)
    assert list((keep_dir / "trash").iterdir()) == []
    assert (outside / "file").read_bytes() == b"x"


def test_the_trash_of_an_earlier_keeper_is_no_obstacle(keep_dir: Path) -> None:
    make_trash(keep_dir)
    write_files(keep_dir / "trash" / "0", {"a": b"x"})
    (keep_dir / "trash" / "1").write_bytes(b"x")
    trash = TrashDir(keep_dir / "trash")
    trash.throw_away(write_files(keep_dir / "part", {"b": b"x"}))
    assert not (keep_dir / "part").exists()
    trash.empty()
    assert list((keep_dir / "trash").iterdir()) == []


def test_two_threads_may_empty_it(keep_dir: Path) -> None:
    trash = make_trash(keep_dir)
    for number in range(20):
        trash.throw_away(write_files(keep_dir / "part", {f"{number}/{each}/f": b"x" for each in range(20)}))
    threads = [threading.Thread(target=trash.empty) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    trash.empty()
    assert list((keep_dir / "trash").iterdir()) == []


def test_a_path_that_is_gone_needs_no_deletion(keep_dir: Path) -> None:
    make_trash(keep_dir).throw_away(keep_dir / "nothing")
