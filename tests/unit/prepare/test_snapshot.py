from __future__ import annotations

import errno
import json
import multiprocessing
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mvp_helpers.base import shared_storage
from mvp_helpers.base.errors import BadInput, Blocked
from mvp_helpers.base.paths import SharedRoot
from mvp_helpers.prepare import snapshot, snapshot_store
from mvp_helpers.prepare.snapshot import Snapshot, Source, check, damage, load

LONG_AGO = time.time() - 3600


@pytest.fixture
def shared(tmp_path: Path) -> SharedRoot:
    return SharedRoot(tmp_path / "shared")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with a small verl, and files that are not part of a snapshot."""
    root = tmp_path / "checkout"
    for name, text in {
        "verl/__init__.py": "WHO = 'checkout'\n",
        "verl/version/version": "9.9.9\n",
        "verl/trainer/main_ppo.py": "print('ppo')\n",
        "verl/trainer/config/ppo.yaml": "a: 1\n",
        "verl/__pycache__/old.pyc": "no",
        "pyproject.toml": "[project]\n",
        "tests/test_x.py": "no",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def take(checkout: Path, shared: SharedRoot, code_id: str | None = None, **more: object) -> Snapshot:
    return snapshot.snapshot(Source(checkout), shared, code_id, **more)  # type: ignore[arg-type]


def tree(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def writable(path: Path) -> Path:
    """Make a snapshot's file editable, as root could without asking."""
    path.parent.chmod(0o755)
    path.chmod(0o644)
    return path


def test_a_snapshot_contains_the_package_its_metadata_a_marker_and_a_manifest(checkout: Path, shared: SharedRoot) -> None:
    made = take(checkout, shared, "codeA")
    assert made.created and made.path == shared.verl_code / "codeA"
    assert tree(made.path) == [
        "mvp_manifest.json",
        "mvp_marker.py",
        "pyproject.toml",
        "verl/__init__.py",
        "verl/trainer/config/ppo.yaml",
        "verl/trainer/main_ppo.py",
        "verl/version/version",
    ]
    assert (made.path / "mvp_marker.py").read_text() == 'MARKER = "codeA"\n'
    assert made.source["kind"] == "directory" and made.source["version"] == "9.9.9"
    assert damage(made.path) == []


def test_python_imports_verl_and_the_marker_from_the_snapshot(checkout: Path, shared: SharedRoot) -> None:
    made = take(checkout, shared)
    script = "import verl, mvp_marker; print(verl.__file__, mvp_marker.MARKER)"
    answer = subprocess.run(
        [sys.executable, "-c", script], env={"PYTHONPATH": str(made.path)}, capture_output=True, text=True, check=True
    )
    assert answer.stdout.split() == [str(made.path / "verl" / "__init__.py"), made.code_id]


def test_the_derived_id_names_version_and_content(checkout: Path, shared: SharedRoot) -> None:
    first = take(checkout, shared)
    assert first.code_id == f"verl-9.9.9-{first.content[:8]}"
    (checkout / "verl" / "new.py").write_text("x = 1\n")
    assert take(checkout, shared).code_id != first.code_id


def test_everything_in_a_snapshot_is_read_only(checkout: Path, shared: SharedRoot) -> None:
    made = take(checkout, shared)
    modes = {oct(path.stat().st_mode & 0o777) for path in [made.path, *made.path.rglob("*")]}
    assert modes == {"0o444", "0o555"}


def test_an_unchanged_source_is_found_again_and_not_read(
    checkout: Path, shared: SharedRoot, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = take(checkout, shared)
    monkeypatch.setattr(snapshot, "_RACY_NS", -10_000_000_000)  # as if the files had been old when they were hashed
    monkeypatch.setattr(snapshot.files, "sha256", lambda path: pytest.fail(f"{path} was read again"))
    said: list[str] = []
    again = take(checkout, shared, say=said.append)
    assert not again.created and again.path == made.path
    assert said == [f"skip: exists {made.path} (5 files)"]


def test_a_file_hashed_right_after_it_changed_is_read_again(checkout: Path, shared: SharedRoot) -> None:
    take(checkout, shared)
    (index,) = (shared.verl_code / ".sources").iterdir()
    known = json.loads(index.read_text())
    known["files"]["verl/__init__.py"][-1] = "0" * 64  # what an edit within the clock's grain leaves: same look, another content
    index.write_text(json.dumps(known))
    assert not take(checkout, shared).created
    known["taken_ns"] += 3_000_000_000  # had the file been old by then, its hash would be believed
    index.write_text(json.dumps(known))
    assert take(checkout, shared, dry_run=True).created


def test_an_edit_that_keeps_size_and_mtime_is_noticed_by_its_ctime(
    checkout: Path, shared: SharedRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "_RACY_NS", -10_000_000_000)
    take(checkout, shared)
    time.sleep(0.02)
    file = checkout / "verl" / "__init__.py"
    before = file.stat()
    file.write_text("WHO = 'checkouX'\n")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert take(checkout, shared).created


def test_a_removed_file_makes_another_snapshot(checkout: Path, shared: SharedRoot) -> None:
    first = take(checkout, shared)
    (checkout / "pyproject.toml").unlink()
    second = take(checkout, shared)
    assert second.created and second.content != first.content


def test_the_same_content_under_another_id_is_stored_once(checkout: Path, shared: SharedRoot) -> None:
    a, b = take(checkout, shared, "codeA"), take(checkout, shared, "codeB")
    assert b.created
    for name in tree(a.path):
        same = (a.path / name).samefile(b.path / name)
        assert same == (not name.startswith("mvp_")), name


def test_an_edited_stored_file_is_not_linked_into_the_next_snapshot(checkout: Path, shared: SharedRoot) -> None:
    a = take(checkout, shared, "codeA")
    writable(a.path / "verl" / "__init__.py").write_text("WHO = 'evil'\n")
    b = take(checkout, shared, "codeB")
    assert (b.path / "verl" / "__init__.py").read_text() == "WHO = 'checkout'\n"


def test_without_hard_links_the_content_is_copied(checkout: Path, shared: SharedRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    a, b = take(checkout, shared, "codeA"), take(checkout, shared, "codeB")
    assert damage(b.path) == [] and not (a.path / "verl/__init__.py").samefile(b.path / "verl/__init__.py")


def test_different_content_under_a_taken_id_is_refused_and_nothing_changes(checkout: Path, shared: SharedRoot) -> None:
    made = take(checkout, shared, "codeA")
    (checkout / "verl" / "__init__.py").write_text("WHO = 'other'\n")
    with pytest.raises(BadInput, match=r"code_id 'codeA' already contains different code \(1 files, such as verl/__init__.py\)"):
        take(checkout, shared, "codeA")
    assert damage(made.path) == []


def test_an_edited_snapshot_is_refused_instead_of_skipped(checkout: Path, shared: SharedRoot) -> None:
    made = take(checkout, shared, "codeA")
    writable(made.path / "verl" / "__init__.py").write_text("WHO = 'evil'\n")
    with pytest.raises(BadInput, match="was edited after it was made"):
        take(checkout, shared, "codeA")


def test_damage_names_edited_added_and_missing_files(checkout: Path, shared: SharedRoot) -> None:
    made = take(checkout, shared)
    facts = (made.path / "verl" / "__init__.py").stat()
    writable(made.path / "verl" / "__init__.py").write_text("WHO = 'checkouX'\n")
    os.utime(made.path / "verl" / "__init__.py", ns=(facts.st_atime_ns, facts.st_mtime_ns))
    (made.path / "verl" / "extra.py").write_text("")
    writable(made.path / "verl" / "version" / "version").unlink()
    assert damage(made.path) == ["verl/__init__.py", "verl/extra.py", "verl/version/version"]
    assert damage(made.path, thorough=False) == ["verl/extra.py", "verl/version/version"]


def test_bytecode_that_jobs_leave_in_a_snapshot_is_not_damage(checkout: Path, shared: SharedRoot) -> None:
    made = take(checkout, shared)
    (made.path / "verl").chmod(0o755)
    (made.path / "verl" / "__pycache__").mkdir()
    (made.path / "verl" / "__pycache__" / "x.pyc").write_text("")
    assert damage(made.path) == []


def test_current_links_to_the_newest_request(checkout: Path, shared: SharedRoot) -> None:
    take(checkout, shared, "codeA")
    take(checkout, shared, "codeB")
    assert os.readlink(shared.verl_code / "current") == "codeB"
    take(checkout, shared, "codeA")
    assert os.readlink(shared.verl_code / "current") == "codeA"


@pytest.mark.parametrize("code_id", ["current", "", ".x", "-x", "a/b", "a b", "../x", "x" * 64])
def test_an_id_that_cannot_be_a_folder_name_is_refused(checkout: Path, shared: SharedRoot, code_id: str) -> None:
    with pytest.raises(BadInput, match="is not allowed"):
        take(checkout, shared, code_id)
    assert not shared.root.exists()


def test_a_folder_without_verl_is_refused(tmp_path: Path, shared: SharedRoot) -> None:
    with pytest.raises(BadInput, match=r"no verl/__init__\.py"):
        take(tmp_path, shared)


def test_a_symlink_inside_the_tree_becomes_a_file(checkout: Path, shared: SharedRoot) -> None:
    (checkout / "verl" / "link.py").symlink_to("__init__.py")
    (checkout / "verl" / "again").symlink_to("trainer")
    made = take(checkout, shared)
    assert not (made.path / "verl" / "link.py").is_symlink()
    assert (made.path / "verl" / "again" / "main_ppo.py").read_text() == "print('ppo')\n"


@pytest.mark.parametrize("target", ["/etc/passwd", "../../elsewhere", ".", ".."])
def test_a_symlink_out_of_the_tree_or_around_itself_is_refused(checkout: Path, shared: SharedRoot, target: str) -> None:
    (checkout.parent / "elsewhere").write_text("secret")
    (checkout / "verl" / "link").symlink_to(target)
    with pytest.raises(BadInput, match=r"symlink .*verl/link leads to"):
        take(checkout, shared)


def test_an_entry_that_is_not_a_file_is_refused(checkout: Path, shared: SharedRoot) -> None:
    os.mkfifo(checkout / "verl" / "pipe")
    with pytest.raises(BadInput, match="pipe is neither a file nor a folder"):
        take(checkout, shared)


def test_a_copy_that_fails_leaves_nothing_visible(checkout: Path, shared: SharedRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("shutil.copyfile", full)
    with pytest.raises(Blocked, match="No space left on device"):
        take(checkout, shared, "codeA")
    assert list(shared.verl_code.iterdir()) == []


def test_a_shared_root_that_cannot_be_written_blocks(checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Blocked, match="cannot write"):
        take(checkout, SharedRoot(tmp_path / "file"))


def test_a_source_that_changes_while_it_is_copied_is_not_stored(
    checkout: Path, shared: SharedRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    import shutil

    real = shutil.copyfile

    def late(origin: Path, place: Path) -> Path:
        (checkout / "verl" / "__init__.py").write_text("WHO = 'changed'\n")
        return Path(real(origin, place))

    monkeypatch.setattr(shutil, "copyfile", late)
    with pytest.raises(Blocked, match="changed while it was copied"):
        take(checkout, shared, "codeA")
    assert not (shared.verl_code / "codeA").exists()


@pytest.mark.parametrize("again", [False, True])
def test_the_remains_of_a_killed_copy_go_with_the_next_command(checkout: Path, shared: SharedRoot, again: bool) -> None:
    if again:
        snapshot.snapshot(snapshot.Source(path=checkout), shared, "codeA")
    left = shared.verl_code / ".new-codeA-killed"
    (left / "verl").mkdir(parents=True)
    left.chmod(0o555)
    gone = {"host": os.uname().nodename, "pid": 1, "started": "1", "pid_space": shared_storage._pid_space()}
    lock = shared.verl_code / ".lock"
    lock.mkdir()
    (lock / "holder.json").write_text(json.dumps(gone))
    snapshot.snapshot(snapshot.Source(path=checkout), shared, "codeA")
    assert not left.exists() and not lock.exists()
    left.mkdir()
    snapshot_store.prune(shared, lambda _: None)
    assert not left.exists() and (shared.verl_code / "codeA").is_dir()


def _race(checkout: Path, root: Path, answers: multiprocessing.Queue[bool]) -> None:
    answers.put(take(checkout, SharedRoot(root), "codeA").created)


def test_of_several_hosts_at_once_one_makes_the_snapshot_and_the_others_find_it(checkout: Path, shared: SharedRoot) -> None:
    for number in range(200):
        (checkout / "verl" / f"m{number}.py").write_text(f"x = {number}\n")
    context = multiprocessing.get_context("fork")
    answers: multiprocessing.Queue[bool] = context.Queue()
    workers = [context.Process(target=_race, args=(checkout, shared.root, answers)) for _ in range(4)]
    for worker in workers:
        worker.start()
    assert sorted(answers.get(timeout=120) for _ in workers) == [False, False, False, True]
    for worker in workers:
        worker.join()
    assert damage(shared.verl_code / "codeA") == []
    assert [path.name for path in shared.verl_code.glob(".new-*")] == []


def test_a_dry_run_writes_nothing(checkout: Path, shared: SharedRoot) -> None:
    said: list[str] = []
    would = take(checkout, shared, "codeA", dry_run=True, say=said.append)
    assert would.created and not shared.root.exists()
    assert said == [f"would copy 5 files from {checkout} to {shared.verl_code / 'codeA'}"]


def test_the_installed_package_is_a_source(shared: SharedRoot, monkeypatch: pytest.MonkeyPatch, checkout: Path) -> None:
    monkeypatch.syspath_prepend(checkout)
    made = snapshot.snapshot(Source(), shared)
    assert made.source["kind"] == "package"
    assert "verl/__init__.py" in tree(made.path) and "pyproject.toml" not in tree(made.path)


# check(): what every submission asks


def test_check_follows_current_to_the_snapshot_itself(checkout: Path, shared: SharedRoot) -> None:
    made = take(checkout, shared, "codeA")
    assert check(shared.verl_code / "current") == load(made.path)


def test_check_names_the_nearest_snapshot_when_the_folder_is_missing(checkout: Path, shared: SharedRoot) -> None:
    take(checkout, shared, "codeA")
    with pytest.raises(BadInput, match=r"is not a folder \(did you mean 'codeA'\?\)"):
        check(shared.verl_code / "codeAA")


def test_check_refuses_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="is empty"):
        check(tmp_path)


def test_check_refuses_a_folder_without_marker(checkout: Path) -> None:
    with pytest.raises(BadInput, match=r"has no mvp_marker\.py"):
        check(checkout)


def test_check_refuses_a_marker_of_another_snapshot(checkout: Path, shared: SharedRoot) -> None:
    made = take(checkout, shared, "codeA")
    writable(made.path / "mvp_marker.py").write_text('MARKER = "codeB"\n')
    with pytest.raises(BadInput, match="is not an unchanged snapshot"):
        check(made.path)


def test_check_refuses_a_renamed_snapshot(checkout: Path, shared: SharedRoot) -> None:
    made = take(checkout, shared, "codeA")
    made.path.rename(made.path.with_name("codeC"))
    with pytest.raises(BadInput, match="is not an unchanged snapshot"):
        check(shared.verl_code / "codeC")


def test_check_refuses_a_manifest_of_another_snapshot(checkout: Path, shared: SharedRoot) -> None:
    made, other = take(checkout, shared, "codeA"), take(checkout, shared, "codeB")
    writable(made.path / "mvp_manifest.json").write_bytes((other.path / "mvp_manifest.json").read_bytes())
    with pytest.raises(BadInput, match="is not an unchanged snapshot"):
        check(made.path)


@pytest.mark.parametrize("text", [None, "", "{", "[]", "{}"])
def test_check_refuses_a_missing_or_damaged_manifest(checkout: Path, shared: SharedRoot, text: str | None) -> None:
    made = take(checkout, shared, "codeA")
    manifest = writable(made.path / "mvp_manifest.json")
    manifest.unlink() if text is None else manifest.write_text(text)
    with pytest.raises(BadInput, match=r"cannot read mvp_manifest\.json"):
        check(made.path)


# git


def commit(root: Path) -> str:
    run = ["git", "-C", str(root), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    subprocess.run([*run, "add", "-A"], check=True)
    subprocess.run([*run, "commit", "-qm", "x"], check=True)
    return subprocess.run([*run, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()


def test_a_checkout_records_commit_origin_and_changed_files(checkout: Path, shared: SharedRoot) -> None:
    head = commit(checkout)
    subprocess.run(["git", "-C", str(checkout), "remote", "add", "origin", "https://me:secret@example.org/verl.git"], check=True)
    clean = take(checkout, shared).source["git"]
    assert clean == {"commit": head, "dirty": False, "changed": [], "origin": "https://example.org/verl.git"}
    (checkout / "verl" / "__init__.py").write_text("WHO = 'me'\n")
    (checkout / "verl" / "new.py").write_text("")
    (checkout / "tests" / "test_x.py").write_text("not part of the snapshot")
    made = take(checkout, shared)
    assert made.source["git"]["dirty"] and made.source["git"]["changed"] == ["verl/__init__.py", "verl/new.py"]
    assert "secret" not in (made.path / "mvp_manifest.json").read_text()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_the_commit_of_another_users_checkout_is_recorded(checkout: Path, shared: SharedRoot) -> None:
    head = commit(checkout)
    for path in (checkout, checkout / ".git"):
        os.chown(path, 12345, 12345)
    assert take(checkout, shared).source["git"]["commit"] == head


def test_provenance_without_git_is_unknown(checkout: Path, shared: SharedRoot) -> None:
    (checkout / ".git").mkdir()
    assert "not a git repository" in take(checkout, shared).source["git"]["unknown"]


def test_a_lost_index_only_costs_a_second_reading(checkout: Path, shared: SharedRoot) -> None:
    made = take(checkout, shared)
    for index in (shared.verl_code / ".sources").iterdir():
        assert json.loads(index.read_text())["source"] == str(checkout)
        index.write_text("{")
    assert not take(checkout, shared).created
    assert damage(made.path) == []
