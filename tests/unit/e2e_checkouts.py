"""Fixture checkouts for the end-to-end procedure: git repositories with a wrapper and a trainer that behave as the real ones,
over the config of the verl that is installed here, and the checkout of a toy trainer."""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import yaml
from toys import write_model

from mvp_helpers.e2e.requests.description import FOLDER

FIXTURES = Path(__file__).parents[1] / "e2e_fixtures"
TOY = FIXTURES / "toy"
NEMO_RL = FIXTURES / "nemo_rl"


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True)


def commit(folder: Path) -> None:
    git(folder, "init", "-q", "-b", "main")
    (folder / ".gitignore").write_text("__pycache__/\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "state")


def make_bridge(folder: Path) -> Path:
    """A Megatron-Bridge checkout with Megatron-LM as a submodule and two passing, focused tests."""
    megatron = folder.with_name(f"{folder.name}-megatron-lm")
    for package in (folder / "src/megatron/bridge", megatron / "megatron/core"):
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("__version__ = '0'\n")
    commit(megatron)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(megatron), "3rdparty/Megatron-LM")
    tests = folder / "tests/unit_tests/models"
    tests.mkdir(parents=True)
    (tests / "test_model_provider_mixin.py").write_text("def test_provider():\n    assert True\n")
    (tests / "test_param_mapping.py").write_text("def test_mapping():\n    assert True\n")
    commit(folder)
    return folder


def make_verl(folder: Path) -> Path:
    """A verl checkout: the installed verl's own config, and the fixtures' wrapper and trainer."""
    spec = importlib.util.find_spec("verl")
    assert spec and spec.origin
    installed = Path(spec.origin).parent
    shutil.copytree(
        installed / "trainer" / "config", folder / "verl/trainer/config", ignore=shutil.ignore_patterns("*.py*", "__pycache__")
    )
    (folder / "verl/__init__.py").write_text("__version__ = '0'\n")
    (folder / "verl/trainer/__init__.py").write_text("")
    shutil.copy(FIXTURES / "fake_trainer.py", folder / "verl/trainer/main_ppo.py")
    script = folder / "tests/special_e2e/run_ppo_trainer_megatron.sh"
    script.parent.mkdir(parents=True)
    shutil.copy(FIXTURES / "fake_wrapper.sh", script)
    for name, place in {
        "fake_preparation.py": "examples/data_preprocess/gsm8k.py",
        "fake_model.py": "scripts/init_random_model.py",
    }.items():
        (folder / place).parent.mkdir(parents=True)
        shutil.copy(FIXTURES / name, folder / place)
    commit(folder)
    return folder


def write_data(folder: Path, rows: int = 4, **more: object) -> None:
    """``train.parquet`` and ``test.parquet`` with the columns that verl reads; ``more``: one more column's value."""
    import pyarrow
    from pyarrow import parquet

    folder.mkdir(parents=True, exist_ok=True)
    columns = {name: [str(row) for row in range(rows)] for name in ("data_source", "prompt", "reward_model")}
    table = pyarrow.table(columns | {name: [value] * rows for name, value in more.items()})
    for name in ("train", "test"):
        parquet.write_table(table, folder / f"{name}.parquet")


def write_variant(folder: Path, **config: object) -> Path:
    """A model whose config.json names more: experts, a vision tower, MTP layers."""
    write_model(folder)
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | config))
    return folder


def make_home(folder: Path) -> Path:
    """A home with data and models where the wrapper looks for them; no reward model."""
    write_data(folder / "data" / "gsm8k")
    write_data(folder / "data" / "geo3k", images=["an image"])
    write_model(folder / "models" / "Qwen" / "Qwen2.5-0.5B")
    write_variant(folder / "models" / "Qwen" / "moe", num_experts=8)
    write_variant(folder / "models" / "Qwen" / "vl", vision_config={"depth": 2})
    write_variant(folder / "models" / "Qwen" / "mtp", num_nextn_predict_layers=1)
    for name in ("modelopt", "transformer_engine", "vllm"):
        (folder / "packages" / name).mkdir(parents=True)
        (folder / "packages" / name / "__init__.py").write_text("")
    return folder


def make_toy(folder: Path) -> Path:
    """A checkout of the trainer that only the tests know."""
    shutil.copytree(TOY / "checkout", folder)
    commit(folder)
    return folder


ERROR = 'max(data["train/token_mult_prob_error"]) < 1.05'
SEPARATE = "policy.generation.colocated.enabled=false policy.generation.colocated.resources.gpus_per_node=1"
VLM = {"run_grpo": "run_vlm_grpo"}
QUANT = "policy.quant_cfg=nvfp4.yaml policy.generation.quant_cfg=nvfp4.yaml"
ASSERT = 'assert_grep() {\n  grep -q "$1" "$2" || {\n    echo FAIL\n    exit 1\n  }\n}\n'
LIKE_GRPO_MEGATRON: dict[str, tuple[dict[str, str], str, list[str]]] = {
    "grpo_megatron_generation": ({}, "policy.generation.backend=megatron", [ERROR]),
    "grpo_nccl_reshard_refit": ({}, f"{SEPARATE} policy.generation.refit_transport=nccl_reshard", [ERROR]),
    "vlm_grpo": (
        {**VLM, "grpo_math_1B_megatron": "vlm_grpo_3B"},
        "grpo.max_num_steps=5",
        [ERROR, ERROR.replace("max", "median")],
    ),
    "audio_grpo_megatron": (
        {**VLM, "grpo_math_1B_megatron": "audio_grpo_3B_megatron"},
        "",
        [ERROR, ERROR.replace("max", "mean")],
    ),
    "grpo_megatron_eagle3_online": (
        {"grpo_math_1B_megatron": "recipes/llm/grpo-f-1n4g-megatron-eagle3"},
        "policy.draft.model_name=d",
        ['min(data["train/draft_loss"]) > 0'],
    ),
}
"""Functional tests that differ from grpo_megatron.sh, as the real ones do, in a few words, overrides and assertions."""


def _write_functional_tests(folder: Path) -> None:
    base = (folder / "grpo_megatron.sh").read_text()
    start, checks = base.split("    'max(", 1)[0], base.index("    $@ ")
    for name, (words, overrides, wanted) in LIKE_GRPO_MEGATRON.items():
        text = start[:checks] + (f"    {overrides} \\\n" if overrides else "") + start[checks:]
        for old, new in words.items():
            text = text.replace(old, new)
        (folder / f"{name}.sh").write_text(text + " \\\n".join(f"    '{check}'" for check in wanted) + "\n")
    head, _, rest = start.partition("uv run coverage")
    command, _, _ = rest.partition("\n\n")
    run = f"uv run --no-sync --extra modelopt coverage{command}".replace(
        "configs/grpo_math_1B_megatron", "modelopt/qa_grpo_math_megatron"
    )
    run = (
        run.replace("grpo.max_num_steps=2", f"grpo.max_num_steps=1 {QUANT}")
        .replace("$LOG_DIR", "$EXP_DIR/$1/logs")
        .replace("$@", '"${@:2}"')
    )
    dump = "uv run tests/json_dump_tb_logs.py $EXP_DIR/$1/logs --output_path $EXP_DIR/$1/metrics.json"
    check = f"""uv run tests/check_metrics.py $EXP_DIR/$1/metrics.json 'data["train/gen_kl_error"]["1"] < 0.003' '{ERROR}'"""
    case = "\n".join(["run_case() {", run, dump, check, "assert_grep Quant $RUN_LOG", "}"])
    (folder / "modelopt_quant_rollout.sh").write_text(
        f'{head}export CACHE=${{NRL_MEGATRON_CHECKPOINT_DIR:-.cache}}\n{ASSERT}{case}\nrun_case real "$@"\nrun_case fake "$@"\n'
    )


def make_nemo_rl(folder: Path) -> Path:
    """A NeMo-RL checkout whose functional tests and trainings behave as the real ones."""
    shutil.copytree(NEMO_RL / "checkout", folder)
    _write_functional_tests(folder / "tests/functional")
    commit(folder)
    return folder


def shell(home: Path, bin_folder: Path) -> dict[str, str]:
    """What the user's shell has. ``bin_folder``: gets a python3, and an nvidia-smi that lists eight GPUs."""
    bin_folder.mkdir(exist_ok=True)
    smi = bin_folder / "nvidia-smi"
    smi.write_text('#!/bin/sh\nfor i in 0 1 2 3 4 5 6 7; do echo "$i, Fake, 80000 MiB"; done\n')
    smi.chmod(0o755)
    # Not a link: a virtual environment's Python finds its packages by its own place. Its folder is one, because Ray starts
    # no worker when the path of its Python has a space.
    venv = bin_folder.parent / "venv"
    venv.symlink_to(sys.prefix)
    python = bin_folder / "python3"
    python.write_text(f'#!/bin/sh\nexec "{venv / "bin" / "python3"}" "$@"\n')
    python.chmod(0o755)
    kept = {name: os.environ[name] for name in ("LANG", "TMPDIR") if name in os.environ}
    own = {"HOME": str(home), "PATH": f"{bin_folder}:/usr/bin:/bin", "E2E_FREE_GB": "0"}
    return {**kept, **own, "MVP_E2E_PYTHONPATH": str(home / "packages")}


def make(folder: str) -> None:
    """All of it for a shell: ``environment`` to source, and descriptions whose runs need neither GPUs nor packages for them."""
    root = Path(folder)
    env = shell(make_home(root / "home"), root / "bin")
    env |= {"BRIDGE_REPO": str(make_bridge(root / "bridge")), "VERL_REPO": str(make_verl(root / "verl"))}
    env["NEMO_RL_REPO"] = str(make_nemo_rl(root / "nemo_rl"))
    shutil.copy(NEMO_RL / "uv", root / "bin")
    mine = {name: value for name, value in env.items() if name not in ("PATH", "LANG", "TMPDIR")}
    lines = [f"export {name}={shlex.quote(value)}" for name, value in mine.items()]
    (root / "environment").write_text("\n".join([*lines, f"PATH={shlex.quote(str(root / 'bin'))}:$PATH", ""]))
    for name in ("verl", "nemo-rl"):
        description = {"extends": str(FOLDER / f"{name}.yaml"), "name": f"{name}-no-gpu", "devices": "cpu", "packages": []}
        (root / f"{name}-no-gpu.yaml").write_text(yaml.safe_dump(description, sort_keys=False))


def copy(checkout: Path, folder: Path) -> Path:
    """Another checkout of the same code."""
    return Path(shutil.copytree(checkout, folder, symlinks=True))
