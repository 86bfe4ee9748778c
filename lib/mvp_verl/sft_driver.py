"""The driver of an SFT job: verl.trainer.sft_trainer_ray with the same arguments, except that

- it joins the Ray cluster of its job by address, or ends: a bare ``ray.init()`` starts a second cluster where it finds none;
- its own tensors stay on ``trainer.device`` (cpu: a driver gets no GPU), while the training workers use the cluster's device,
  ``MVP_WORKERS_DEVICE``. verl has one setting for both: verl 0.9.1 replaces a configured ``cpu`` by the accelerator that it
  detects (``utils/device.py``), which makes the driver fail; earlier revisions request the resource "cpu" from Ray, which no
  node has;
- resumed at the end of an epoch it trains the next one, and it skips validation with less data than one batch.

It uses from verl's module: ``main`` that calls ``run_sft(config)``, and ``SFTTrainer`` with ``resume_global_step``,
``steps_per_epoch``, ``train_dataloader``, ``val_dataloader``, ``test_freq``, and ``device_name``, which only ``fit`` reads.
"""

from __future__ import annotations

import os
import sys
from typing import Any


def fit(trainer: Any, config: Any, workers_device: str) -> None:
    """Train with ``trainer.SFTTrainer``: workers on ``workers_device``, the driver's own tensors on ``config.trainer.device``.

    Raises RuntimeError when this version of verl stores its device elsewhere.
    """
    driver_device, config.trainer.device = config.trainer.device, workers_device
    sft = trainer.SFTTrainer(config=config)
    if getattr(sft, "device_name", None) != workers_device:
        raise RuntimeError(
            "mvp_verl.sft_driver does not support this version of verl: SFTTrainer.device_name is not trainer.device"
        )
    sft.device_name = driver_device
    if sft.resume_global_step and sft.resume_global_step % sft.steps_per_epoch == 0:
        # Resumed at the end of an epoch the data loader is exhausted: verl would train nothing in the next epoch.
        for _ in sft.train_dataloader:
            pass
    validation = getattr(sft, "val_dataloader", None)
    if validation is not None and not len(validation):
        # verl validates in whole training batches, and would log the mean over zero of them: NaN.
        print("MVP_SFT_DRIVER: validation skipped: its data has fewer rows than data.train_batch_size", flush=True)
        sft.val_dataloader, sft.test_freq = None, -1
    sft.fit()


def main() -> None:
    """Compose the config as verl does, join the job's cluster, train. Exits with a message when it finds no cluster to join."""
    address, workers_device = os.environ.get("RAY_ADDRESS"), os.environ.get("MVP_WORKERS_DEVICE")
    if not address or not workers_device:
        sys.exit("mvp_verl.sft_driver: RAY_ADDRESS or MVP_WORKERS_DEVICE is not set: run it as a job of the toolkit")
    import ray
    from verl.trainer import sft_trainer_ray as trainer

    def run_sft(config: Any) -> None:
        context = ray.init(address)
        cluster = f"{context['gcs_address']} with {sum(node['Alive'] for node in ray.nodes())} nodes"
        print(
            f"MVP_SFT_DRIVER: cluster {cluster}, own tensors on {config.trainer.device}, workers on {workers_device}", flush=True
        )
        fit(trainer, config, workers_device)

    trainer.auto_set_device = lambda config: None
    trainer.run_sft = run_sft
    trainer.main()


if __name__ == "__main__":
    main()
