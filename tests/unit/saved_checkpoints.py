"""Checkpoints as verl leaves them, without weights worth the name."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

from mvp_helpers.trainers.verl_checkpoints import KINDS, TRACKER


def archive(path: Path) -> None:
    """Write a zip archive with the entries that ``torch.save`` writes."""
    with zipfile.ZipFile(path, "w") as stream:
        stream.writestr(f"{path.stem}/data.pkl", b"\x80\x02}q\x00.")
        stream.writestr(f"{path.stem}/data/0", bytes(20_000))


def save(checkpoints: Path, step: int, parts: tuple[str, ...] = ("actor", "critic"), size: int = 2) -> Path:
    """Write checkpoint ``step`` as FSDP of ``size`` processes does (``parts`` of SFT: "."), and the tracker."""
    path = checkpoints / f"global_step_{step}"
    for part in parts:
        (path / part / "huggingface").mkdir(parents=True)
        for rank in range(size):
            for kind in KINDS:
                archive(path / part / f"{kind}_world_size_{size}_rank_{rank}.pt")
        (path / part / "huggingface" / "config.json").write_text("{}")
        (path / part / "fsdp_config.json").write_text(json.dumps({"FSDP_version": 2, "world_size": size}))
    archive(path / ("data_0.pt" if parts == (".",) else "data.pt"))
    (checkpoints / TRACKER).write_text(str(step))
    return path


def save_megatron(checkpoints: Path, step: int, parts: tuple[str, ...] = ("actor",), size: int = 8) -> Path:
    """Write checkpoint ``step`` as verl 0.9 does with Megatron and a bridge, and the tracker."""
    path = checkpoints / f"global_step_{step}"
    for part in parts:
        for name in ("optimizer", "extra"):
            place = path / part / name / "dist_ckpt"
            place.mkdir(parents=True)
            (place / ".metadata").write_bytes(b"\x80\x04X\x0c\x00\x00\x00__0_0.distcp.")
            (place / "metadata.json").write_text('{"sharded_backend": "torch_dist", "sharded_backend_version": 1}')
            archive(place / "common.pt")
            archive(place / "__0_0.distcp")
        safetensors(path / part / "model" / "huggingface")
        # verl makes it although it saves nothing in it.
        (path / part / "model" / "dist_ckpt").mkdir()
        (path / part / "transformer_config.json").write_text("{}")
        paths = {
            "model": "model/huggingface",
            "optimizer": "optimizer/dist_ckpt",
            "rng_state": "extra/dist_ckpt",
            "transformer_config": "transformer_config.json",
        }
        contents = {name: {"path": path} for name, path in paths.items()}
        manifest = {"schema_version": 2, "global_step": step, "world_size": size, "contents": contents}
        (path / part / "ckpt_contents.json").write_text(json.dumps(manifest))
    archive(path / "data.pt")
    (checkpoints / TRACKER).write_text(str(step))
    return path


def safetensors(folder: Path) -> None:
    """Write the weights of a Hugging Face model in one shard with an index."""
    folder.mkdir(parents=True)
    header = json.dumps({"w": {"dtype": "F32", "shape": [250], "data_offsets": [0, 1000]}}).encode()
    (folder / "model-1-of-1.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(1000))
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"w": "model-1-of-1.safetensors"}}))
    (folder / "config.json").write_text("{}")
