"""What trackers are told of a job's config: no secret."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mvp_verl import tracking


class Tracking:
    """As verl's: hands its config to every tracker."""

    def __init__(self, project_name: str, experiment_name: str, default_backend: Any = "console", config: Any = None) -> None:
        self.told = (project_name, experiment_name, default_backend, config)


def test_a_secret_in_the_config_reaches_no_tracker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secrets.json").write_text(json.dumps({"HF_TOKEN": "hf_unseen1234567890"}))
    (tmp_path / "secrets.json").chmod(0o600)
    monkeypatch.setenv("MVP_SECRETS_FILE", str(tmp_path / "secrets.json"))
    module: Any = SimpleNamespace(Tracking=type("Tracking", (Tracking,), {}))
    tracking._mask_config(module)
    told = module.Tracking("p", "e", ["wandb"], config={"a": {"token": "hf_unseen1234567890"}, "lr": 1e-3}).told
    assert "hf_unseen" not in repr(told) and told[:3] == ("p", "e", ["wandb"]) and told[3]["lr"] == 1e-3
