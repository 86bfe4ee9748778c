"""Scripts with a loop of their own: only every epoch or step with its loss, up to the end, is a pass."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from odd_numbers import explain_with_odd_numbers
from triaging import triaged


def epoch(number: int, more: str = "", total: int = 4) -> str:
    return f"Epoch {number}/{total}, Loss: {2 - number / 10:.4f}{more}\n"


def every(more: str) -> str:
    return "".join(epoch(number, more) for number in (1, 2, 3, 4))


ALL = every("")
UNKNOWN = "epoch 1: loss 2.0\nepoch 2: loss 1.9\n"
END = "Training complete!\n"
RAISED = 'Traceback (most recent call last):\n  File "/q/t.py", line 3, in <module>\n    save()\nRuntimeError: odd\n'
GPT = "max_iters = 30\nstep 0: train loss 4.2, val loss 4.3\niter 0: loss 4.2, time 90ms, mfu -100%\n" + "".join(
    f"iter {n}: loss 3.5, time 9ms, mfu 4%\n" for n in (10, 20)
)
GPT += "step 30: train loss 3.1, val loss 3.4\niter 30: loss 3.2, time 90ms, mfu 4%\n"


def behind_a_bar(last: int) -> str:
    return "".join(f" 50%|##| {n}/4 [00:02<00:02, 1.1s/it] Epoch: {n} | train_loss: 0.7\n" for n in range(1, last + 1))


def under_headings(*epochs: int, steps: tuple[int, ...] = (10, 20, 30)) -> str:
    return "".join(f"=== Epoch {n}/2 ===\n" + "".join(f"[step {s}] avg_loss=0.{s}\n" for s in steps) for n in epochs)


def below_headings(*epochs: int, of: str = "/3", loss: str = "Train Loss: 1.2, Acc: 70.8%") -> str:
    bars = "Training:  50%|#  | 2/4 [00:00<00:01, 5.1it/s]\rTraining: 100%|##| 4/4 [00:00<00:00, 5.1it/s]"
    logged = "2026-02-03 14:54:14,221 - INFO - "
    return "".join(f"{logged}Epoch {n}{of}\n\n{bars}{logged}{loss}\n{logged}Val Loss: 1.3\n" for n in epochs)


def table(updates: int, loss: str = "5.4", iteration: int = 7) -> str:
    rows = ("time/", ""), ("   iterations", str(iteration)), ("train/", ""), ("   loss", loss), ("   n_updates", str(updates))
    return "-" * 40 + "\n" + "".join(f"| {name:<20} | {value:<9} |\n" for name, value in (*rows, ("   value_loss", "9.1")))


TABLES = "Using cpu device\n" + "".join(map(table, (10, 20, 30)))
CONTINUED = "Using cpu device\n" + "".join(table(200 + 10 * n, iteration=n) for n in (1, 2, 3))
SAME_FOLDER = "Run directory: /q/logs/2026-02-06_21-21-02\nMap saved there\n"
LEROBOT = "".join(
    f"INFO 2026-05-23 01:27:39 train.py:357 step:{n}K smpl:2M ep:5K epch:{n * 0.27:.2f} loss:{{}} grdn:0.658 lr:1.0e-05\n"
    for n in (1, 2, 3, 4)
)
LEROBOT_END = "INFO 2026-05-23 01:34:36 train.py:438 End of training\n"
TUNE = "INFO:torchtune.utils._logging:Learning rate scheduler is initialized.\n" + "\r".join(
    f"1|{n}|Loss: {3 - n / 10}: {n * 25:>3}%|##| {n}/4 [00:0{n}<00:00,  9.4it/s]" for n in (1, 2, 3, 4)
)
TUNE += "\r" + TUNE.rpartition("\r")[2]
TUNE_END = "\nINFO:torchtune.utils._logging:Starting checkpoint save...\nINFO:torchtune.utils._logging:Saved in 9.1 seconds.\n"
YOLO_OPTIONS = (
    "engine/trainer: task=detect, mode=train, epochs=3, cache=False, device=None, exist_ok=False, freeze=None, amp=True\n"
)
YOLO_ROW = (
    "     {n}/3       6.8G      3.447      12.58       2.98         18        640:  50%|##  | 1/2 [00:00<00:01, 1.1it/s]"
    "\r     {n}/3       6.8G      3.447      {loss}       2.98         18        640: 100%|####| 2/2 [00:01<00:00, 1.9it/s]\n"
    "                   all        128        929       0.64      0.537      0.605      0.446\n"
)
YOLO_VERSIONS = "Ultralytics YOLOv8.0.200 Python-3.10 torch-2.1.0+cu118 CUDA:0 (Tesla T4, 15102MiB)\n"
YOLO_END = "3 epochs completed in 0.554 hours.\nValidating runs/train7/weights/best.pt...\n" + YOLO_VERSIONS
YOLO_END += (
    "                   all        128        929       0.64      0.537      0.605      0.446\nResults saved to runs/train7\n"
)
YOLO_EARLY = "EarlyStopping: Training stopped early as no improvement observed in last 2 epochs. Best: 1.\n"
YOLO_5_END = "\n4 epochs completed in 0.554 hours.\n"
YOLO_RESUMED = "Resuming training /runs/train7/weights/last.pt from epoch 2 to 3 total epochs\n"
LAUNCHED = (
    "".join(f"Epoch {n}/3 | loss: {loss}\n" for n, loss in ((1, 7.05), (2, 6.95), (3, 6.9)))
    + "Checkpoint saved to /out/ds\n"
    + "".join(f"[2026-06-30 21:55:39,743] [INFO] [launch.py:367:main] Process {pid} exits successfully.\n" for pid in (6, 7))
)


GAN = "Namespace(n_epochs=2, batch_size=64)\n" + "".join(
    f"[Epoch {n}/2] [Batch {k}/3] [D loss: 0.{n}{k}] [G loss: 0.8]\n" for n in (0, 1) for k in (0, 1, 2)
)
GAN += "Generator saved to g.pth\n"
NANOCHAT = "".join(
    f"step {n:05} ({n * 25}.00%) | loss: {3 - n / 10} | lrm: 1.00 | dt: 263.5ms | epoch: 1 | total time: 0.00m\n"
    for n in (1, 2, 3, 4)
)


def yolo(*epochs: int, loss: str = "2.58") -> str:
    return YOLO_VERSIONS + YOLO_OPTIONS + "".join(YOLO_ROW.format(n=n, loss=loss) for n in epochs)


BARS = "".join(
    f"Epoch {n}:   0%|   | 0/14 [00:00<?, ?it/s]\rEpoch {n}: 100%|###| 14/14 [00:21<00:00, 1.5s/it, loss=8{n}.9]\n"
    for n in (1, 2, 3)
)
BELOW_BARS = "".join(
    f"Training Epoch {n}: 100%|###| 28/28 [00:21<00:00, 1.5s/it, Batch_Loss=0.{n}]"
    f"\rValidating: 100%|###| 8/8 [00:06<00:00, 1.3it/s]      \rEpoch {n}/3, Train Loss: 0.0{n}, Val Loss: 0.08\n"
    for n in (1, 2, 3)
)
HF_STEP = "{{'loss': 0.5, 'learning_rate': 1e-05, 'epoch': {}}}\n"
HF_END = "{{'train_runtime': 332.9, 'train_steps_per_second': 0.9, 'train_loss': 0.4, 'epoch': {}}}\n"
HF_JSON = ("".join(HF_STEP.format(n / 4) for n in (1, 2, 3, 4)) + HF_END.format(1.0)).replace("'", '"')
TWO_TRAININGS = "".join(
    "".join(map(HF_STEP.format, epochs)) + HF_END.format(end)
    for epochs, end in (((0.5, 1.0, 1.5, 2.0, 2.5, 3.0), 3.0), ((2.21, 4.42, 6.64, 8.85), 10.0))
)
KERAS = "".join(
    f"Epoch {n}/3\nptxas exited with non-zero error code 65280, output: x\nptxas fatal   : Ptx assembly aborted due to errors\n\n"
    "Relying on driver to perform ptx compilation.\n"
    f"432/432 ━━━━━━━━━━━━━━━━━━━━ 242s 306ms/step - loss: 0.{n} - val_loss: 0.2102\n"
    for n in (1, 2, 3)
)
ROWS = "".join(f'{{"step": {n}, "of": 65, "loss_lm": 1.{n // 10}, "tok_s": 42276.7}}\n' for n in (20, 40, 60))
LITGPT = "".join(
    f"Epoch 1 | iter {n} step {n} | loss train: 3.{9 - n}, val: n/a | iter time: 45.73 ms (step)\n" for n in (1, 2, 3)
)
LITGPT_END = "| - Training Time             :  52.80 s\n| Memory Usage\nFinal evaluation | val loss: 2.118 | val ppl: 8.315\n"


def rsl_rl(*iterations: int, loss: str = "19.6") -> str:
    tables = "".join(
        f"{'#' * 40}\n\x1b[1m          Learning iteration {n}/4          \x1b[0m \n\n        Total steps: {n}512 \n"
        f"    Mean value loss: {loss}\n        Mean reward: -4.08\n{'-' * 40}\n                ETA: 00:00:0{4 - n}\n\n"
        for n in iterations
    )
    return "[INFO] Logging experiment in directory: /u/logs/rsl_rl/flat\n" + tables


def espnet(*epochs: int, loss: str = "80.1") -> str:
    who = "[n7] 2026-02-03 10:00:01,200 (trainer:300) INFO: "
    return "".join(
        f"{who}{n}/3epoch started. Estimated time to finish: 3 minutes\n{who}{n}epoch:train:1-100batch: loss=8{n}.1, acc=0.4\n"
        f"{who}{n}epoch results: [train] iter_time=0.1, loss={loss}, acc=0.4, [valid] loss=80.1, acc=0.5\n"
        for n in epochs
    )


def mmengine(*lines: tuple[int, int], epochs: int = 2) -> str:
    return f"train_cfg = dict(max_epochs={epochs}, type='EpochBasedTrainLoop')\n" + "".join(
        f"06/16 20:02:03 - mmengine - INFO - Epoch(train)  [{n}][{k}/110]  lr: 1.0e-02  eta: 0:00:25  loss: 1.{n}\n"
        for n, k in lines
    )


def fairseq(*epochs: int) -> str:
    return "".join(
        f"2026-02-03 10:00:01 | INFO | train_inner | epoch {n:03}:    {k} / 200 loss=8.1, ppl=400.1, lr=1e-05\n"
        for n in epochs
        for k in (100, 200)
    )


FAIRSEQ_END = "2026-02-03 10:00:09 | INFO | fairseq_cli.train | done training in 180.1 seconds\n"
MAXTEXT = "I0811 21:54:01.5 7 pyconfig.py:471] Config param steps: 4\n" + "".join(
    f"I0811 21:54:5{n}.5 7 metric_logger.py:226] completed step: {n}, seconds: 0.6, total_weights: 1572864, loss: 12.{n}\n"
    for n in (0, 1, 2, 3)
)
NO_TRAINER = "02/03/2026 10:00:01 - INFO - __main__ -   Total optimization steps = 3\n" + "".join(
    f"02/03/2026 10:00:0{n} - INFO - __main__ -   Step: {n}, LR: 1e-05, Loss: 1.{n}, TPS: 5000.1\n" for n in (1, 2, 3)
)
TIANSHOU = "".join(
    f"Epoch #{n}: 50001it [00:40, 1244.54it/s, env_step={n}50000, len=200, loss=-0.56{n}, rew=200.00]\n" for n in (1, 2, 3)
)
TIANSHOU_END = "{'best_result': '200.00 ± 0.00', 'best_reward': 200.0, 'duration': '120.31s'}\n"
ITERATIONS = "".join(f"iter {n:>6} | loss {4 - n / 100:.4f} | lr 3.00e-06 | 23s\n" for n in (0, 50, 100, 150, 200))
MM_LINES = (1, 50), (1, 100), (2, 50), (2, 100)


def sb3(*updates: int) -> str:
    return "".join(f"| time/ | |\n|    iterations | {n // 10} |\n|    n_updates | {n} |\n|    loss | 0.{n} |\n" for n in updates)


def keras(*epochs: int, of: int = 3) -> str:
    bar = "20/20 [=====] - 3s 55us/step - loss: 0.0{n} - val_loss: 0.1{n}\n"
    return "".join(f"Epoch {n}/{of}\n 7/20 [=>..] - ETA: 1s - loss: 0.{n}\n" + bar.format(n=n) for n in epochs)


KERAS_2 = "".join(
    f"Epoch {n}/3\nEpoch {n}: saving model to cp-{n}.ckpt\n17/17 - 48s - loss: 0.0{n} - val_loss: 0.1{n} - 48s/epoch - 3s/step\n"
    for n in (1, 2, 3)
)
KERAS_3 = "".join(
    f"Epoch {n}/2\n\n 7/20 ━━━ 5:41 12s/step - loss: 1.3{n}\n"
    f"20/20 ━━━━ 0s 13ms/step - loss: 1.1{n}\n20/20 ━━━━ 1s 14ms/step - loss: 1.1{n}\n"
    for n in (1, 2)
)
TAGGED = "".join(f"[train] iter {n}0: loss 2.1{n} 4499 ms/iter\n" for n in (1, 2, 3))
PASSING = {
    "a range of epochs with metrics, and all tests": "epochs 1-2: warm-up\n" + ALL + END + "tests: 6/6 passed\n",
    "a range of epochs that an early stop left out": "epochs 3-9: decay\n"
    + UNKNOWN
    + "Early stopping at epoch 2\nepochs 3-9: left\n",
    "an exploding gradient that is avoided": "clipping avoids exploding gradients\n" + ALL + END,
    "all the epochs that it begins with": "Training for 2 epochs\n" + UNKNOWN,
    "epochs in capitals": UNKNOWN.replace("epoch", "EPOCH").replace(": loss", "\tTrain Loss:") + END,
    "an early stop without a number": UNKNOWN + "[EARLY STOP] No improvement, stopping training.\n",
    "an early stop in an epoch": UNKNOWN.replace("epoch", "EPOCH") + "Early stopping in epoch 2\n",
    "an early stop, counted from 1": UNKNOWN.replace("epoch 1", "epoch 0").replace("epoch 2", "epoch 1")
    + "Early stopping at epoch 2\n",
    **{f"the option {option}": f"Namespace(lr=0.1, {option}=2, seed=7)\n" + UNKNOWN for option in ("epochs", "epoches")},
    "an evaluation with its result": ALL + END + "Evaluating on the test set...\nTest accuracy: 0.81\n",
    "an evaluation with a full bar": ALL + END + "Running evaluation\n100%|####| 4/4 [00:04<00:00, 1.1s/it]\n",
    "Caffe": "".join(f"I0821 solver.cpp:228] Iteration {n}, loss = 0.{n}1\n" for n in (10, 20, 30))
    + "I0821 09:41:10.158881  5405 solver.cpp:296] Optimization Done.\n",
    "Stable-Baselines3 with a bar": sb3(10, 20, 30) + " 100% ━━━━━ 6,144/6,144  [ 0:00:29 < 0:00:00 , 460 it/s ]\n",
    "UER-py": "".join(f"|    {n}00/    300 steps| 1409.78 tokens/s| loss    1.7{n}| acc: 0.62\n" for n in (1, 2, 3))
    + "validation loss:2.07\n",
    "Keras": keras(1, 2, 3) + "Test accuracy: 0.99\n",
    "Keras with a line for each epoch": KERAS_2 + "MODEL SAVED\n",
    "Keras 3, with an evaluation": KERAS_3 + "7/7 ━━━━ 0s 13ms/step - accuracy: 0.6 - loss: 1.4\nTest accuracy: 0.7\n",
    "the status that a launcher saw": TAGGED
    + "[2026-01-02 12:22:04,704632][I][ezpz/launch:448:launch] Execution finished with 0.\n",
    "an early stop, a loss of another name": "".join(f"Epoch {n}/9 train_mse_scaled=0.02{n} val_mae=46.7\n" for n in (1, 2, 3))
    + "Early stopping triggered at epoch 3. Best val RMSE: 68.5\nTraining complete. Best checkpoint at: a.pt\n",
    "a metric that is called an error": "".join(f"Epoch {n} | loss 4.{n} | cardinality_error=95.{n}\n" for n in (0, 1, 2))
    + "Training done.\n",
    "a value that was printed to be seen": "[2024-03-09 10:38:04][CRITICAL][trainer:338] - \"devid='cuda:2'\"\n" + keras(1, 2, 3),
    "episodes of reinforcement learning": "".join(
        f"Episode {n}/40 | Reward: -27{n}.8 | Loss: 1.{n} | ETA: 4.4m\n" for n in (10, 20, 30, 40)
    )
    + "====\nTRAINING COMPLETE\n====\nBest reward: -270.54\n",
    "checkpoints between the epochs": "".join(
        f"Checkpoint saved to out/best.pt (epoch {n}, loss 5.7{n}e-02)\nepoch {n} | loss 5.7{n}e-02\n" for n in (1, 2, 3)
    )
    + "Training complete. Best loss: 5.71e-02\n",
    "iterations in a column": ITERATIONS + "done. best val 1.0157 (1.4654 bpc)\n",
    "an arrow after the end": "".join(f"[dpo] step={n}0 loss=0.0{n} adv=+14{n}\n" for n in (1, 2, 3))
    + "dpo done -> out/last.pt\n",
    "epochs that say where they end": "".join(
        f"=== Epoch {n}/2 ===\n[step {2 * n - 1}] loss=0.{n}\n[step {2 * n}] loss=0.{n}\n==end-of-epoch {n}==\n" for n in (1, 2)
    )
    + "Training complete\n",
    "the time of all of it": ALL + "Total training time: 14.26474084854126 min\n",
    "in Chinese": "".join(f"--- Epoch {n}/3 ---\nEpoch {n} 训练平均 Loss: 1.4{n}\n" for n in (1, 2, 3))
    + "✅ 训练完成, 最终模型保存至: ./out/final.pt\n",
    "LitGPT": LITGPT + LITGPT_END,
    "Lit-LLaMA": "".join(f"iter {n} step {n}: loss 3.{9 - n}, iter time: 45.73ms (optimizer.step)\n" for n in (1, 2, 3))
    + "Training time: 52.80s\nMemory used: 9.00 GB\n",
    "rsl_rl": rsl_rl(0, 1, 2, 3),
    "rsl_rl before its metrics were means": rsl_rl(0, 1, 2, 3).replace("Mean value loss", "Value function loss"),
    "Isaac Lab": rsl_rl(0, 1, 2, 3).replace("value loss", "value_function loss") + "Simulation App Shutting Down\n",
    "ESPnet": espnet(1, 2, 3) + "[n7] 2026-02-03 10:00:09,100 (trainer:460) INFO: The training was finished at 3 epochs \n",
    "MMEngine, whose epochs end between two lines": mmengine(*MM_LINES) + "Saving checkpoint at 2 epochs\n",
    "MMEngine, by iterations": mmengine(*MM_LINES)
    .replace("Epoch(train)  [1][50/110]", "Iter(train) [ 50/200]")
    .replace("Epoch(train)  [1][100/110]", "Iter(train) [100/200]")
    .replace("Epoch(train)  [2][50/110]", "Iter(train) [150/200]")
    .replace("Epoch(train)  [2][100/110]", "Iter(train) [200/200]"),
    "fairseq": fairseq(1, 2) + FAIRSEQ_END,
    "MaxText": MAXTEXT,
    "a script of HF's without its trainer": NO_TRAINER,
    "Tianshou": TIANSHOU + TIANSHOU_END,
    "Keras, with kernels that the driver compiles": KERAS,
    "an optimization that finished": ALL + "Early stopping...\nOptimization Finished!\nTest set results: cost= 0.69809\n",
    "two trainings of HF's trainer, the second with wider intervals": TWO_TRAININGS,
    "Ultralytics": yolo(1, 2, 3) + YOLO_END,
    "a model that did not improve": ALL.replace("\n", "\nno improvement, model not saved\n", 1) + END,
    "the last seed of 3": "Running seed 3 of 3\n" + ALL + END,
    "one seed that is set everywhere": "seed: 42, 3 workers\n" + ALL + END,
    "YOLOv5, whose epochs count from 0": yolo(0, 1, 2, 3) + YOLO_5_END,
    "Ultralytics that goes on": YOLO_RESUMED + yolo(2, 3) + YOLO_END.replace("3 epochs", "2 epochs"),
    "a script that DeepSpeed's launcher started": LAUNCHED,
    "Ultralytics that stops early": yolo(1, 2) + YOLO_EARLY + YOLO_END.replace("3 epochs", "2 epochs"),
    "YOLOv5 that stops early": yolo(0, 1, 2)
    + "Stopping training early as no improvement observed in last 2 epochs.\n"
    + YOLO_5_END.replace("4 epochs", "3 epochs"),
    "a script with bars like those of Lightning": BARS + "Training finished.\n",
    "a line of each epoch below its bars": BELOW_BARS,
    "a first line on stderr, below PowerShell": "x : WARNING:root:'a' is not there\nAt C:\\u\\train.ps1:68 char:9\n"
    "+         x @args 2>&1 | Tee-Object\n    + CategoryInfo          : NotSpecified: (W:String) [], RemoteException\n"
    "    + FullyQualifiedErrorId : NativeCommandError\n" + BELOW_BARS,
    "Ultralytics, a row twice": yolo(1, 2, 2, 3) + YOLO_END,
    "one epoch with a bar": BARS.partition("Epoch 2:")[0] + "Training finished.\n",
    "an end that names its step": "step 000 | loss 1.9\nstep 001 | loss 1.8\nstep 002 | loss 1.7\nrun complete @ step 3: 9 min\n",
    "words about the end twice": UNKNOWN + END + END,
    "words about the end after each part, of a known number": "iter 1/2: loss 1.9\nTraining done\n"
    "iter 2/2: loss 1.8\nTraining done\n",
    "lines of JSON, by their interval": ROWS + "sft done, steps: 65\n",
    "losses without a colon below headings": below_headings(1, 2, 3, loss="Train loss 1.2 accuracy 0.3")
    + "Model saved to a.pth\n",
    "a limit of its own": "step:1/9 train_loss:2.1 time:5ms\nstep:2/9 train_loss:2.0 time:6ms\n"
    "stopping_early: wallclock_cap train_time:6ms step:2/9\n",
    "JSON of HF's trainer": HF_JSON,
    "one line of HF's trainer before the end of the only epoch": HF_STEP.format(0.8) + HF_END.format(1.0),
    "torchtune": TUNE + TUNE_END,
    "its final model": UNKNOWN + "2026-02-03 14:54:14,221 - INFO - Final model saved to /out/final\n",
    "Stable-Baselines3, its final model": TABLES + "Saved final model to: /out/final\n",
    "epochs that a line with the batch size announces": "INFO: Data size: 9, batch size: 5, training epoch: 2.\n"
    + "".join(f"INFO: Epoch 000{n} in stage A | Ave Loss: 8.6\n" for n in (0, 1)),
    "steps that begin again below the heading of each epoch": under_headings(1, 2) + END,
    "losses below the heading of each epoch": below_headings(1, 2, 3) + END,
    "losses below headings, without words about the end": "Train Loss: 3.1\n" + below_headings(1, 2, 3),
    "losses below headings, as many as the options say": "args = Namespace(lr=0.1, epochs=3)\n" + below_headings(1, 2, 3, of=""),
    "losses below headings without a total": below_headings(1, 2, 3, of="", loss="loss: 0.7 Acc: 0.6") + END,
    "its own words twice": ALL + END + "Training pipeline completed successfully!\n",
    "the same with a line before each step": "Memory of this host: 61.2 percent, swap 3.2 GB\n"
    + re.sub(r"(?m)^(?=.step)", "Memory of this host: 61.2 percent, swap 3.2 GB\n", under_headings(1, 2))
    + END,
    "behind a bar that counts its epochs": behind_a_bar(4),
    "Stable-Baselines3": TABLES + END,
    "Stable-Baselines3 with a model that was loaded": CONTINUED + END,
    "a GAN of epochs and batches from 0": GAN,
    "an early stop that says why, and an end": "".join(f"Epoch {n}/9 loss: 0.{9 - n}\n" for n in (1, 2, 3))
    + "Early stopping: no AUC improvement for 2 epochs. Best AUC=0.9\nTraining complete. Best val AUC=0.9 at epoch 1\n",
    "an early stop in brackets": "".join(f"Epoch {n}: train loss=0.{9 - n}, val=0.5\n" for n in (1, 2, 3))
    + "[EARLY STOP] Validation did not improve for 2 epochs.\n",
    "nanochat": NANOCHAT + END,
    "Stable-Baselines3, whose folder comes again": "Run directory: /q/logs/2026-02-06_21-21-02\n"
    + TABLES
    + END
    + "Run directory: /q/logs/2026-02-06_21-21-02\n",
    "LeRobot": LEROBOT.replace("{}", "0.1") + LEROBOT_END,
    "a line after each epoch that the log almost begins with": "Start\n"
    + "".join(epoch(n) + f"Train accuracy: {n}.9, Validation accuracy: 6.5\n" for n in (1, 2, 3, 4)),
    "options with an epoch and none": "args = Namespace(lr=0.1, epochs=4, perturb='none', loss=None)\n" + ALL,
    "nanoGPT, whose last step ends it": GPT + "wandb: Find logs at: wandb/one\n",
    "loguru": "".join(
        f"2026-02-03 14:54:14.221 | INFO     | __main__:tune:279 - Epoch {n} completed. Average loss: {5 - n}.1\n" for n in (1, 2)
    )
    + "2026-02-03 14:54:17.062 | INFO     | __main__:tune:295 - Fine-tuning completed!\n",
    "steps each tenth, and how many at the end": "".join(f"step={n} loss=1.5 lr=0.1\n" for n in range(0, 60, 10))
    + "Training complete in 47.1 min  (56 steps, 1 epochs)\n",
    "a time after a colon": UNKNOWN + "Training completed in: 132.16 minutes\n",
    "its own words": ALL + END,
    "a logger before them": ALL + "2026-01-31 10:00:00,123 - __main__ - INFO - GRPO training completed successfully!\n",
    "a sentence after them": ALL + "Fine-tuning finished. The best epoch was 3.\n",
    "from 0": "".join(f"Epoch {number}/4 - loss: 2.0\n" for number in (0, 1, 2, 3)) + END,
    "every batch": "".join(f"Epoch {n}/4 [{k}/5] Loss: 1.9\n" for n in (1, 2, 3, 4) for k in (1, 2, 3, 4, 5)) + END,
    "numbered steps of its epochs": "".join(f"Epoch:[{n}/2]({k}/45), loss: 1.9, lr: 1e-5\n" for n in (1, 2) for k in (20, 40, 45))
    + END,
    "numbered steps of its only epoch": "".join(f"Epoch:[1/1]({k}/65), Actor Loss: 0.0, KL: 0.1\n" for k in (20, 40, 60, 65))
    + END,
    "every epoch without its words": ALL,
    "as many epochs as it was started with": "args: {'lr': 0.1, 'epochs': 2}\n"
    "epoch 0: train loss :: 1.6, dev acc :: 0.4\nepoch 1: train loss :: 1.5, dev acc :: 0.4\nload model\ntest acc :: 0.39\n",
    "a number of epochs in words": "Number of epochs: 2\n" + UNKNOWN,
    "epochs from 0 up to their number": "".join(f"Epoch {n}/3 - loss: 2.0\n" for n in (0, 1, 2, 3)),
    "epochs of an unknown number": UNKNOWN + END,
    "a measure that improved from infinity": epoch(1)
    + "Model is improving ppl: inf --> 5.4.\n"
    + epoch(2)
    + epoch(3)
    + epoch(4)
    + END,
    "an early stop": epoch(1) + epoch(2) + "Early stopping triggered after 2 epochs\nbest epoch 1, wrote model\n",
    "two lines of each epoch": "".join(f"Epoch {n}/2, actor loss: 1.9\nEpoch {n}/2, critic loss: 0.9\n" for n in (1, 2)),
    "steps of epochs that begin again": "".join(f"Epoch {n}/2, Step {k}, Loss: 1.9\n" for n in (1, 2) for k in (10, 20, 30))
    + END,
    "steps that run on over epochs": "".join(f"Epoch {1 + k // 4}, Step {k}, Loss: 1.9\n" for k in range(1, 8)) + END,
    "numbered from 0, as examples of PyTorch do": "".join(
        f"Epoch: [{n}][{k:>4}/28]  Loss 1.9 (2.0)\n" for n in (0, 1) for k in (0, 10, 20)
    )
    + END,
    "the last interval of its steps, and work after it": "".join(f"Epoch:[1/1]({k}/48) loss:1.9\n" for k in (9, 19, 29, 39))
    + "model saved\n",
    "the last interval of its steps, and a tracker's last words": "".join(
        f"Epoch:[1/1]({k}/48) loss:1.9\n" for k in (9, 19, 29, 39)
    )
    + "wandb: View run Epoch-1-Batch-8 at: https://wandb.example/one\n",
    "bars with a loss": "".join(
        f"Epoch {n}/2:  50%|#####     | 5/10 [00:01<00:01,  4.9it/s, loss=0.5]\r"
        f"Epoch {n}/2: 100%|##########| 10/10 [00:02<00:00,  4.9it/s, loss=0.4]\n"
        for n in (1, 2)
    ),
    "a bar of all steps": "".join(f"SFT: {k * 25}%|##| {k}/4 [00:0{k}<00:01,  1.1s/it, loss 0.4]\n" for k in (1, 2, 3, 4)),
    "a bar that is redrawn in one line": "\r".join(
        f"SFT: {k * 25}%|##| {k}/4 [00:0{k}<00:01,  1.1s/it, loss 0.4]" for k in (1, 2, 3, 4)
    )
    + "\nDone!\n",
    "Lightning's words after its lines": "INFO Epoch 0: v_loss 2.1  loss 3.1\nINFO Epoch 1: v_loss 2.0  loss 3.0\n"
    "`Trainer.fit` stopped: `max_epochs=2` reached.\n",
    "steps": "".join(f"step {step}/40: loss=2.1\n" for step in (10, 20, 30, 40)) + "done training in 7 s\n",
}
NOT_PASSING = {
    "more epochs in a range without metrics": UNKNOWN + "epochs 3-5: too slow to show\n" + END,
    "tests of which not all passed": ALL + END + "Integration tests: 5/6 PASSED\n",
    "a gradient that exploded": UNKNOWN + "Gradient explosion in the next one\n" + END,
    "a loss that diverged": ALL.replace("Epoch 4", "the loss has diverged\nEpoch 4") + END,
    "fewer epochs than its heading says": "=== TRAINING PERFORMANCE (100 samples, 10 epochs) ===\n" + UNKNOWN + END,
    "fewer epochs than it begins with": "Starting training for 3 epochs...\n" + UNKNOWN + END,
    "an option of a part of the run": "scheduler: max_epoch: 2\n" + UNKNOWN,
    "an early stop that did not come": UNKNOWN + "No early stopping in epoch 2\n",
    "an early stop that was not triggered": UNKNOWN + "Early stopping not triggered at epoch 2\n",
    "a metric of the early stop": UNKNOWN + "Early stopping metric improved in epoch 2, saving model\n",
    "an early stop for another reason": UNKNOWN + "Early stopping in epoch 2: loss is no longer finite\n",
    "an early stop before the last epoch": UNKNOWN + "Early stopping at epoch 1\n",
    "YOLOv5 whose last validation is not finite": yolo(0, 1, 2, 3) + "   all  128  929  nan  nan\n" + YOLO_5_END,
    "an early stop in the epoch after the last": UNKNOWN + "Early stopping in epoch 3\n",
    "Ultralytics with fewer epochs": yolo(1, 2) + YOLO_END.replace("3 epochs", "2 epochs"),
    "YOLOv5 with fewer epochs": yolo(0, 1, 2) + YOLO_5_END.replace("4 epochs", "3 epochs"),
    "an early stop in a later epoch": UNKNOWN + "Early stopping at epoch 9\n",
    "an early stop after a gap": UNKNOWN + UNKNOWN.replace("1:", "4:").replace("2:", "5:") + "Early stopping in epoch 5\n",
    "early stopping that was only set": UNKNOWN + "early stopping in 5 epochs\n",
    "fewer epochs than the option": "Namespace(max_epoch=3, seed=7)\n" + UNKNOWN,
    "an early stop of a part": UNKNOWN + "[EARLY STOP] No improvement, stopping training of fold 1\n",
    "two options of epochs": "Namespace(max_epoch=3, n_epoch=2)\n" + UNKNOWN,
    **{
        f"an evaluation that only begins: {line[-40:]}": ALL + END + line
        for line in (
            "Evaluating on the test set...\n",
            "***** Running Evaluation *****\n  Num examples = 50\n  Batch size = 1\n",
            "Running test evaluation\nEval:  50%|##  | 2/4 [00:02<00:02, 1.1s/it]\rEval:  75%|### | 3/4 [00:03<00:01, 1.1s/it]\n",
            "Validating runs/exp/best.pt...\nnet summary (fused): 100 layers, 2,582,737 parameters\n",
            "Loading the best model for final evaluation...\n",
            "Starting evaluate.py ...\n",
            "Waiting 10 seconds before starting next training...\n",
        )
    },
    "Caffe, of which something else is done": "I0821 solver.cpp:228] Iteration 10, loss = 0.1\nThreshold optimization Done\n",
    "Stable-Baselines3 with a bar that is not full": sb3(10, 20, 30)
    + " 83% ━━━━━ 5,144/6,144  [ 0:00:29 < 0:00:09 , 460 it/s ]\n",
    **{
        f"UER-py, then {line}": "".join(
            f"|    {n}00/    300 steps| 1409.78 tokens/s| loss    1.7{n}| acc: 0.62\n" for n in (1, 2, 3)
        )
        + f"{line}\n"
        for line in ("unable to write models/out.bin-300", "Worker 3 is killed", "Starting training of stage 2", "Stage 2 starts")
    },
    "UER-py with Windows's NaN": "".join(
        f"|    {n}00/    300 steps| 1409.78 tokens/s| loss    {loss}| acc: 0.62\n"
        for n, loss in ((1, 1.2), (2, "-1.#IND"), (3, 1.1))
    ),
    "Keras in the third of five folds": "".join(f"fold {n}/5\n{KERAS_2}" for n in (1, 2, 3)),
    "Keras in some of ten folds": "Running 10-fold cross validation\n" + KERAS_2 * 3,
    "Keras before the next fold": KERAS_2 + "Fold 3\n",
    "Keras without data": KERAS_2.replace(
        "Epoch 3: saving", "WARNING: Your input ran out of data; interrupting training\nEpoch 3: s"
    ),
    "UER-py without its last rows": "".join(
        f"|    {n}00/    400 steps| 1409.78 tokens/s| loss    1.7{n}| acc: 0.62\n" for n in (1, 2, 3)
    ),
    "UER-py with NaN": "".join(
        f"|    {n}00/    300 steps| 1409.78 tokens/s| loss    {loss}| acc: 0.62\n" for n, loss in ((1, 2.1), (2, "nan"), (3, 2))
    ),
    "Keras by its headings without its last epoch": keras(1, 2),
    "Keras by its headings without an epoch": keras(1, 3) + "Test accuracy: 0.99\n",
    "Keras by its headings, redrawn in one line, killed in the last epoch": keras(1, 2, 3)
    .replace("0.3\n20/20", "0.3\r20/20")
    .rpartition("\r")[0]
    + "\n",
    "an error with a number in the last epoch": "Epoch 1/2 | loss 4.1\nEpoch 2/2 | loss 4.0 | checkpoint error: 28 No space\n",
    "a reason as a value": "[2024-03-09 10:38:04][CRITICAL][trainer:338] - \"reason='checkpoint-not-written'\"\n"
    + keras(1, 2, 3),
    "Keras by its headings, killed in the last validation": keras(1, 2, 3).rpartition(" - val_loss")[0] + "\n",
    "Keras by its headings, then the bar of an evaluation": keras(1, 2) + "Epoch 3/3\n7/7 [===] - 0s 9us/step - loss: 0.3\n",
    "Keras with a line for each epoch, killed in the last one": KERAS_2.rpartition("17/17")[0],
    "Keras with a line for each epoch, then that of an evaluation": KERAS_2.rpartition("17/17")[0] + "7/7 - 0s - loss: 0.3\n",
    "Keras with a line for each epoch, one of which is missing": KERAS_2.replace(KERAS_2.split("Epoch 2/3")[1][:40], ""),
    "Keras by its headings with NaN": keras(1, 2, 3).replace("0.02", "nan"),
    "Keras by its headings whose last bar breaks off": keras(1, 2, 3).rpartition("20/20")[0],
    "Keras by its headings that begins again": keras(1, 2, 3) + keras(1),
    "a bad status that a launcher saw": TAGGED + "Execution finished with 10.\n",
    "an error in an epoch": "Epoch 1/2 | loss 4.1\nEpoch 2/2 error: no space | loss 4.2\nTraining done.\n",
    "episodes without the last": "".join(f"Episode {n}/40 | Reward: -27{n}.8 | Loss: 1.{n}\n" for n in (10, 20, 30)),
    "iterations in a column, one missing": ITERATIONS.replace("iter    100", "item    100") + "done. best val 1.0157\n",
    "iterations in a column without their end": ITERATIONS,
    "LitGPT without its end": LITGPT,
    "LitGPT without an iteration": LITGPT.replace("iter 2 ", "part 2 ") + LITGPT_END,
    "LitGPT with NaN": LITGPT.replace("3.7", "nan") + LITGPT_END,
    "LitGPT, begun again": LITGPT + LITGPT_END + LITGPT,
    "LitGPT with an error": "ERROR: no space\n" + LITGPT + LITGPT_END,
    "rsl_rl without its last iteration": rsl_rl(0, 1, 2),
    "rsl_rl without an iteration": rsl_rl(0, 1, 3),
    "rsl_rl without its first iteration": rsl_rl(1, 2, 3),
    "rsl_rl whose last table breaks off": rsl_rl(0, 1, 2, 3).rpartition("    Mean value loss")[0],
    "a time after each epoch": "".join(f"{epoch(n)}Training time: 4.2 s\n" for n in (1, 2)),
    "a time after the first of unknown epochs": "".join(f"Epoch {n}, loss: 1.{n}\n" for n in (1, 2)) + "Training time: 4.2 s\n",
    "a best epoch so far": "".join(f"Iteration: {n}00\tLoss: -1.{n}\n" for n in range(3)) + "Best epoch 1: Acc: 0.8\n",
    "an end of a part, and more steps": "Epoch 1, loss: 1.3\nTraining finished.\nEpoch 2, loss: 1.2\nEpoch 3, loss: 1.1\n",
    "an arrow to the next stage": "".join(f"[sft] step={n} loss=0.0{n}\n" for n in (1, 2, 3)) + "sft done -> starting dpo\n",
    "rsl_rl before its metrics were means, with inf": rsl_rl(0, 1, 2, 3, loss="inf").replace("Mean value", "Value function"),
    "rsl_rl with NaN": rsl_rl(0, 1, 2, 3, loss="nan"),
    "rsl_rl with a reward of NaN": rsl_rl(0, 1, 2, 3).replace("-4.08", "nan"),
    "rsl_rl and an exception": rsl_rl(0, 1, 2, 3) + RAISED,
    "ESPnet without its last epoch": espnet(1, 2),
    "ESPnet without an epoch": espnet(1, 3) + "[n7] (trainer:460) INFO: The training was finished at 3 epochs \n",
    "ESPnet with NaN": espnet(1, 2, 3, loss="nan"),
    "ESPnet whose last epoch only begins": espnet(1, 2, 3).rpartition("[n7]")[0],
    "MMEngine without its last epoch": mmengine(*MM_LINES[:2]) + "Saving checkpoint at 1 epochs\n",
    "MMEngine without its last line": mmengine(*MM_LINES[:3]) + "Saving checkpoint at 2 epochs\n",
    "MMEngine without the first line of an epoch": mmengine(*MM_LINES[:2], MM_LINES[3]) + "Saving checkpoint at 2 epochs\n",
    "MMEngine without a line": mmengine(MM_LINES[0], *MM_LINES[2:]) + "Saving checkpoint at 2 epochs\n",
    "MMEngine, of more epochs": mmengine(*MM_LINES, epochs=3) + "Saving checkpoint at 2 epochs\n",
    "fairseq without its end": fairseq(1, 2),
    "fairseq without a step": fairseq(1, 2).replace("epoch 001:    200", "part 001:    200") + FAIRSEQ_END,
    "fairseq with NaN": fairseq(1, 2).replace("8.1", "nan") + FAIRSEQ_END,
    "whole epochs of an unknown number": "".join(f"Train Epoch: {n} [{k}/50]\tLoss: 1.9\n" for n in (1, 2) for k in (25, 50)),
    "whole epochs of an unknown number, and a test": "".join(
        f"Epoch: {n} [{k}/50]\tLoss: 1.9\n" for n in (1, 2) for k in (25, 50)
    )
    + "Test set: Accuracy: 98%\n",
    "MaxText without its last step": MAXTEXT.rpartition("I0811")[0],
    "MaxText without a step": MAXTEXT.replace("completed step: 2", "part 2"),
    "MaxText with an infinite loss": MAXTEXT.replace("12.2", "inf"),
    "a script of HF's without its trainer, of more steps": NO_TRAINER.replace("steps = 3", "steps = 4"),
    "a script of HF's without its trainer, of thousands": NO_TRAINER.replace("steps = 3", "steps = 3,000"),
    "Tianshou without its end": TIANSHOU,
    "Tianshou without an epoch": TIANSHOU.replace("Epoch #2", "Part #2") + TIANSHOU_END,
    "Keras without its last epoch": KERAS.rpartition("432/432")[0],
    "two trainings of HF's trainer, without a step": TWO_TRAININGS.replace(HF_STEP.format(6.64), ""),
    "losses without a colon below headings, without the last": below_headings(1, 2, loss="Train loss 1.2 accuracy 0.3"),
    "JSON of HF's trainer, without one": HF_JSON.replace(f"{HF_STEP.format(0.5)}".replace("'", '"'), ""),
    "JSON of HF's trainer, without a loss": HF_JSON.replace('"loss": 0.5', '"loss": null'),
    "one line of HF's trainer, of several": HF_STEP.format(0.01) + HF_END.format(1.0),
    "one line of HF's trainer, of two": HF_STEP.format(0.5) + HF_END.format(1.0),
    "words about the end after each part": "iter 1: loss 1.9\nTraining done\niter 2: loss 1.8\nTraining done\n",
    "an end that names a later step": "step 000 | loss 1.9\nstep 001 | loss 1.8\nrun complete @ step 3: 9 min\n",
    "fewer steps than its end counts": "step 1: loss 1.9\nstep 2: loss 1.8\nsft done, steps: 90\n",
    "lines of JSON, without one": ROWS.replace('"step": 40', '"part": 40') + "sft done, steps: 65\n",
    "lines of JSON, without the last": ROWS.rpartition('{"step"')[0] + "sft done, steps: 65\n",
    "lines of JSON, with NaN": ROWS.replace("1.6", "NaN") + "sft done, steps: 65\n",
    "Ultralytics that does not say why it begins later": yolo(2, 3) + YOLO_END.replace("3 epochs", "2 epochs"),
    "Ultralytics that goes on, without its last epoch": YOLO_RESUMED + yolo(2) + YOLO_END.replace("3 epochs", "2 epochs"),
    "a script that DeepSpeed's launcher started, without its last epoch": LAUNCHED.replace("Epoch 3/3 | loss: 6.9\n", ""),
    "a script that DeepSpeed's launcher started, without a number of epochs": LAUNCHED.replace("/3", ""),
    "a script that DeepSpeed's launcher started, and ended": LAUNCHED.replace(
        "Process 7 exits successfully.", "Killing subprocess 7"
    ),
    "three epochs without the second": LAUNCHED.replace("Epoch 2/3 | loss: 6.95\n", ""),
    "a script that DeepSpeed's launcher started, with an error": LAUNCHED.replace("Checkpoint saved", "ERROR: not saved"),
    "YOLOv5 without its first epoch": yolo(1, 2, 3) + YOLO_5_END,
    "YOLOv5 without its last epoch": yolo(0, 1, 2) + YOLO_5_END,
    "YOLOv5 with an epoch more": yolo(0, 1, 2, 3) + YOLO_5_END.replace("4 epochs", "3 epochs"),
    "YOLOv5 without an epoch": yolo(0, 1, 3) + YOLO_5_END,
    "YOLOv5 with NaN": yolo(0, 1, 2, 3, loss="nan") + YOLO_5_END,
    "Ultralytics without an epoch": yolo(1, 3) + YOLO_END,
    "Ultralytics without its end": yolo(1, 2),
    "Ultralytics without its last epoch": yolo(1, 2) + YOLO_END,
    "Ultralytics whose last validation stopped": yolo(1, 2, 3)
    + "                 Class     Images  Instances      Box(P          R      mAP50  mAP50-95):  50%|##  | 2/4 [00:01<00:01]\n"
    + YOLO_END,
    "NaN without a colon": ALL.replace("\n", " kl NaN\n") + END,
    "an exit before the end": ALL + "Exiting from training early\n" + END,
    "data that ran out": ALL + "ran out of data, stopping\n" + END,
    "an error that a script ignores": ALL.replace("\n", "\nerror in the reward, ignored\n", 1) + END,
    "a save that was refused": ALL + "model checkpoint not uploaded: access denied\n" + END,
    "an F1 that is no number": ALL + "validation f1 nan\n" + END,
    "an epoch of HF's 3": "***** Running training *****\n  Num Epochs = 3\n"
    + "".join(HF_STEP.format(n / 4) for n in (1, 2, 3, 4))
    + HF_END.format(1.0),
    "a full disk": ALL + "Disk is full, skipping save of the last weights\n" + END,
    "a push that was refused": ALL + "Could not push to hub (403), the model stays local\n" + END,
    "a save that failed, in Chinese": ALL + "保存模型失败, 磁盘空间不足\n" + END,
    "a save that was not allowed": ALL + "Permission denied: '/models/out/model.safetensors' (it stays in memory)\n" + END,
    "the first seed of 3": "Running seed 1 of 3\n" + ALL + END,
    "the first of the seeds that are listed": "Seeds: 0, 1, 2\n=== seed 0 ===\n" + ALL + END,
    "Ultralytics with NaN": yolo(1, 2, 3, loss="nan") + YOLO_END,
    "bars like those of Lightning, without one": BARS.replace("Epoch 2:", "Part 2:") + "Training finished.\n",
    "bars like those of Lightning, without words about the end": BARS,
    "a line of each epoch below its bars, without the last": BELOW_BARS.rpartition("Training Epoch 3")[0],
    "headings, without the last epoch": under_headings(1) + END,
    "headings, without the last step": under_headings(1) + under_headings(2, steps=(10, 20)) + END,
    "losses below headings, without the last epoch": below_headings(1, 2) + END,
    "losses below headings, without one": below_headings(1, 2, 4, of="/4") + END,
    "losses below headings, begun again": below_headings(1, 2, 3) + below_headings(1) + END,
    "losses below headings, of held-out data alone": below_headings(1, 2, 3, loss="Test Loss: 1.2") + END,
    "losses below headings, of a validation alone": below_headings(1, 2, 3, loss="Validation: avg loss: 1.2") + END,
    "losses below headings, of parts of an epoch": below_headings(1, 2, 3, loss="Batch 3, - loss: 1.2") + END,
    "losses below headings, fewer than the options say": "args = Namespace(lr=0.1, epochs=4)\n" + below_headings(1, 2, 3, of=""),
    "losses below headings, without one of a training": below_headings(1, 2)
    + below_headings(3, loss="training took 3.1 s")
    + END,
    "losses below headings, without a total or an end": below_headings(1, 2, 3, of=""),
    "another part of a pipeline after its own words": ALL + END + "Training part two of the pipeline\n",
    "a final model that is still to come": UNKNOWN + "Final model is saved when it is the best\n",
    "fewer epochs than a line with the batch size announces": "INFO: Data size: 9, batch size: 5, training epoch: 3.\n"
    + "".join(f"INFO: Epoch 000{n} in stage A | Ave Loss: 8.6\n" for n in (0, 1)),
    "a heading that names the epoch": "INFO: training epoch: 2.\n"
    + "".join(f"INFO: Epoch 000{n} in stage A | Ave Loss: 8.6\n" for n in (0, 1)),
    "torchtune without its last step": "\r".join(state for state in TUNE.split("\r") if "|4|" not in state) + TUNE_END,
    "torchtune without one step": "\r".join(state for state in TUNE.split("\r") if "|3|" not in state) + TUNE_END,
    "torchtune's second epoch": TUNE + "\n" + "2|5|Loss: 2.1:  25%|#   | 1/4 [00:01<00:03,  9.4it/s]" + TUNE_END,
    "torchtune with NaN": TUNE.replace("Loss: 2.8", "Loss: nan") + TUNE_END,
    "headings, begun again": under_headings(1, 2) + under_headings(1) + END,
    "headings, with the second epoch alone": under_headings(2) + END,
    "an end alone": END,
    "one epoch of an unknown number": "epoch 1: loss 2.0\nFinished training\n",
    "a missing epoch": epoch(1) + epoch(2) + epoch(4) + END,
    "an early end": epoch(1) + epoch(2) + END,
    "more epochs than there were to be": ALL + epoch(5) + END,
    "epochs of an unknown number without words": UNKNOWN,
    "validation bars alone": "".join(
        f"Epoch {n}/2 [Validation]: 100%|##| 9/9 [00:02<00:00,  4.9it/s, loss=0.4]\n" for n in (1, 2)
    ),
    "validation bars alone, named before": "".join(
        f"Val Epoch {n}/2: 100%|##| 9/9 [00:02<00:00,  4.9it/s, loss=0.4]\n" for n in (1, 2)
    ),
    "validation alone": "".join(f"Validation Epoch {n}/2: loss 0.3\n" for n in (1, 2)) + END,
    "validation alone, named after": "".join(f"Epoch {n}/2 [val] loss: 0.3\n" for n in (1, 2)) + END,
    "the epochs of a warm-up": "warmup epochs 2\n" + UNKNOWN,
    "the epochs between two saves": "args: --save-epochs 2 warmup_epochs=2\n" + UNKNOWN,
    "epochs from 0, of which one may be to come": "".join(f"Epoch {n}/4 - loss: 2.0\n" for n in (0, 1, 2, 3)),
    "epochs from 0, of which the last began": "".join(f"Epoch {n}/4 - loss: 2.0\n" for n in (0, 1, 2, 3)) + "Epoch 4/4\n-----\n",
    "epochs of two stated numbers": "epochs: 2\nepochs: 3\n" + UNKNOWN,
    "fewer epochs than it was started with": "--epochs 3\n" + UNKNOWN,
    "an epoch of which only a part is logged": "Epoch 1/1, Step 10, Loss: 1.9\n",
    "an epoch whose bar stops": "Epoch 1/2: 100%|##| 9/9 [00:02<00:00,  4.9it/s, loss=0.4]\n"
    "Epoch 2/2:  50%|##| 5/9 [00:02<00:00,  4.9it/s, loss=0.4]\n",
    "an epoch without its last steps": "".join(
        f"Epoch {n}, Step {k}, Loss: 1.9\n" for n, last in ((1, 6), (2, 4)) for k in range(1, last)
    )
    + END,
    "an earlier epoch without its last steps": "".join(
        f"Epoch {n}, Step {k}, Loss: 1.9\n" for n, last in ((1, 6), (2, 4), (3, 6)) for k in range(1, last)
    )
    + END,
    "a missing epoch of steps": "".join(f"Epoch {n}, Step {k}, Loss: 1.9\n" for n in (1, 3) for k in (1, 2, 3)) + END,
    "steps that begin with a later epoch": "".join(f"Epoch {n}, Step {k}, Loss: 1.9\n" for n in (2, 3) for k in (1, 2)) + END,
    "a line less of one epoch": "".join(f"Epoch {n}/2, actor loss: 1.9\nEpoch {n}/2, critic loss: 0.9\n" for n in (1, 2)).replace(
        "Epoch 2/2, critic", "critic"
    ),
    "the last interval of its steps, and no more": "".join(f"Epoch:[1/1]({k}/48) loss:1.9\n" for k in (9, 19, 29, 39)),
    "a redrawn bar that stops": "\r".join(f"SFT: {k * 25}%|##| {k}/4 [00:0{k}<00:01,  1.1s/it, loss 0.4]" for k in (1, 2, 3)),
    "a redrawn bar without a state": "\r".join(
        f"SFT: {k * 25}%|##| {k}/4 [00:0{k}<00:01,  1.1s/it, loss 0.4]" for k in (1, 2, 4)
    ),
    "a measure that became infinite": epoch(1) + "Model is improving ppl: 5.4 --> inf.\n" + epoch(2) + epoch(3) + epoch(4) + END,
    "a stop that is only possible": epoch(1) + epoch(2) + "Early stopping counter: 2 out of 5\n",
    "the options of an early stop": epoch(1) + epoch(2) + "early_stopping: patience=2\n",
    "behind a bar, without the last epochs": behind_a_bar(2),
    "behind a bar of something else": "".join(
        f" 25%|##| 1/4 [00:02<00:02, 1.1s/it] Epoch: {n} | train_loss: 0.7\n" for n in (1, 2, 3, 4)
    ),
    "Stable-Baselines3 without its end": TABLES,
    "Stable-Baselines3 with a model that was loaded, without its beginning": CONTINUED.replace("| 1  ", "| 4  ") + END,
    "an early stop that says why, without an epoch": "".join(f"Epoch {n}/9 loss: 0.{9 - n}\n" for n in (1, 3))
    + "Early stopping: no AUC improvement for 2 epochs. Best AUC=0.9\nTraining complete. Best val AUC=0.9 at epoch 1\n",
    "a GAN without an epoch": GAN.replace("Epoch 1/2", "Part 1/2"),
    "a GAN without a batch": GAN.replace("[Epoch 1/2] [Batch 1/3]", "[Part 1/2]"),
    "a GAN with NaN": GAN.replace("0.11", "nan"),
    "nanochat without a step": NANOCHAT.replace("step 00003", "part 00003") + END,
    "nanochat with NaN": NANOCHAT.replace("loss: 2.8", "loss: nan") + END,
    "Stable-Baselines3 with a table less": TABLES + table(50) + table(60) + END,
    "Stable-Baselines3 without its first table": "Using cpu device\n" + "".join(map(table, (20, 30, 40))) + END,
    "another start in the same folder, after an end": SAME_FOLDER + TABLES + END + SAME_FOLDER,
    "LeRobot without its first line": LEROBOT.replace("{}", "0.1").partition("\n")[2] + LEROBOT_END,
    "LeRobot with a line less": "".join(
        line for line in LEROBOT.replace("{}", "0.1").splitlines(keepends=True) if "step:3K" not in line
    )
    + LEROBOT_END,
    "LeRobot without its end": LEROBOT.replace("{}", "0.1"),
    "LeRobot with NaN": LEROBOT.replace("{}", "nan") + LEROBOT_END,
    "a second training that only begins, without words between": ALL + "Training model B\n",
    "nanoGPT without its last step": GPT.rpartition("iter 30")[0] + "wandb: Find logs at: wandb/one\n",
    "nanoGPT with a step less": GPT.replace("iter 10: loss 3.5, time 9ms, mfu 4%\n", ""),
    "nanoGPT with another number of steps": "max_iters = 40\n" + GPT,
    "another start, by the log's first line": "== alpha beta gamma 1 ==\n" + ALL + "== alpha beta gamma 2 ==\n",
    "another start, in other words": "Criando o conjunto de dados\nDispositivo: cuda:0\n"
    + ALL
    + "Criando o conjunto de dados\nDispositivo: cuda:1\n",
    "a later part that only begins": ALL + "Stage 1 training complete\n",
    "killed without its words": ALL + "Killed\n",
    "a doubt without its words": epoch(1) + epoch(2) + "WARNING: ran out of memory, skipping batch\n" + epoch(3) + epoch(4),
    "no gradients, without its words": every(" grad_norm: 0.0"),
    "steps of epochs, of which one may be missing": "".join(
        f"Epoch {n}/2, Step {k}, Loss: 1.9\n" for n in (1, 2) for k in (10, 20, 40)
    )
    + END,
    "numbered steps without their last": "".join(f"Epoch:[1/1]({k}/90), loss: 1.9\n" for k in (20, 40)) + END,
    "numbered steps without an epoch": "".join(f"Epoch:[1/2]({k}/45), loss: 1.9\n" for k in (20, 40, 45)) + END,
    "a gap in numbered steps": "".join(f"Epoch:[1/1]({k}/45), loss: 1.9\n" for k in (10, 20, 40, 45)) + END,
    **{
        f"words about something else: {words}": UNKNOWN + words + "\n"
        for words in (
            "Training complete: False",
            "Training complete (5 failed steps)",
            "training completed, 0 of 4 workers answered",
            "Waiting until training completed.",
            "Evaluation begins once training is done",
            "Stage 1 training complete",
            "Reward model training complete",
            "Training completed for epoch 4",
            "Training stopped early, done",
        )
    },
    "losses of validations": ALL.replace("Loss", "val_loss") + END,
    "the best loss so far": ALL.replace("Loss", "best loss") + END,
    "NaN": ALL.replace("1.8000", "nan") + END,
    "an exception after its words": ALL + END + RAISED,
    "killed after its words": ALL + END + "Killed\n",
    "a crash after its words": ALL + END + "Segmentation fault (core dumped)\n",
    "an end that is none": ALL + "Training complete: False\n",
    "an end with failures": ALL + "Training completed with 2 failed workers\n",
    "a second training that breaks off": ALL + END + epoch(1) + epoch(2),
    "a second training that only begins": ALL + END + "Training model B\n",
    "a batch that was left out": epoch(1) + epoch(2) + "WARNING: ran out of memory, skipping batch\n" + epoch(3) + epoch(4),
    "words of a script about another trainer": "{'loss': 2.0, 'grad_norm': 1.0, 'epoch': 1.0}\nTraining complete!\n",
    "steps each tenth, and more at the end": "".join(f"step={n} loss=1.5 lr=0.1\n" for n in range(0, 60, 10))
    + "Training complete in 47.1 min  (76 steps, 1 epochs)\n",
    "steps each tenth, and fewer at the end": "".join(f"step={n} loss=1.5 lr=0.1\n" for n in range(0, 60, 10))
    + "Training complete in 47.1 min  (30 steps, 1 epochs)\n",
    "a validation of NaN": ALL + "Epoch 4/4, val_loss: nan\n" + END,
}


@pytest.mark.parametrize("case", PASSING)
def test_a_script_that_shows_all_its_steps_and_their_end_passes(case: str, tmp_path: Path) -> None:
    answer = triaged(tmp_path, PASSING[case])
    assert (answer.verdict, "all finite" in answer.evidence) == ("Pass", True), answer


@pytest.mark.parametrize("case", NOT_PASSING)
def test_a_script_that_leaves_something_open_does_not_pass(case: str, tmp_path: Path) -> None:
    assert triaged(tmp_path, NOT_PASSING[case]).verdict not in ("Pass", "Noise")


@pytest.mark.parametrize("name", ["loss", "value_loss", "approx_kl", "ep_rew_mean", "ent_coef"])
def test_a_number_of_a_table_that_is_not_finite_fails(name: str, tmp_path: Path) -> None:
    answer = triaged(tmp_path, TABLES + f"|    {name:<17} | nan       |\n" + table(40) + END)
    assert answer.verdict == "Fail", answer


def test_a_start_in_the_same_folder_after_an_error_is_another_run(tmp_path: Path) -> None:
    answer = triaged(tmp_path, SAME_FOLDER + TABLES + RAISED + SAME_FOLDER)
    assert (answer.verdict, "2 runs" in answer.advice) == ("Unknown", True), answer


def test_headings_that_begin_again_are_those_of_another_run(tmp_path: Path) -> None:
    answer = triaged(tmp_path, (under_headings(1, 2) + under_headings(1, 2) + END).replace("===", "--"))
    assert (answer.verdict, "2 runs" in answer.advice) == ("Pass", True), answer


def test_the_first_line_after_an_error_line_begins_another_run(tmp_path: Path) -> None:
    begin = "2026-01-31 10:00:0{} - INFO - Preprocessor of instructions\n"
    answer = triaged(tmp_path, begin.format(1) + "one\ntwo\nthree\nERROR - Extra data: line 2\n" + begin.format(7) + "four\n")
    assert (answer.verdict, "2 runs" in answer.advice) == ("Unknown", True), answer


def test_a_loss_that_is_nan_comes_before_the_stop_of_its_run(tmp_path: Path) -> None:
    stopped = 'Traceback (most recent call last):\n  File "/q/t.py", line 3, in <module>\n    step()\nKeyboardInterrupt\n'
    answer = triaged(tmp_path, GPT.replace("iter 10: loss 3.5", "iter 10: loss nan") + stopped)
    assert (answer.verdict, answer.boundary, answer.rule) == ("Fail", "training", "not-finite"), answer
    assert triaged(tmp_path, epoch(1) + stopped).boundary == "outside"


@pytest.mark.parametrize("name", PASSING)
def test_no_odd_number_of_a_script_prevents_an_answer(name: str, tmp_path: Path) -> None:
    explain_with_odd_numbers(tmp_path, PASSING[name])


def test_words_of_a_script_before_any_step_do_not_end_a_run(tmp_path: Path) -> None:
    answer = triaged(tmp_path, "Tokenizer training complete.\n" + epoch(1) + epoch(2) + RAISED)
    assert (answer.verdict, answer.phase) == ("Fail", "train")


def test_a_loss_below_the_heading_of_an_epoch_is_one_of_the_training(tmp_path: Path) -> None:
    answer = triaged(tmp_path, "Epoch 1/3\nTrain Loss: 1.2\nEpoch 2/3\nTrain Loss: 1.1\n" + RAISED)
    assert (answer.verdict, answer.phase) == ("Fail", "train")


def test_a_logger_that_calls_a_beginning_critical_reports_no_error(tmp_path: Path) -> None:
    said = "CRITICAL:__main__:{}\nINFO:__main__:Finetuning done!\n"
    assert triaged(tmp_path, said.format("Starting finetuning")).verdict == "Unknown"
    assert triaged(tmp_path, said.format("cannot open the tokens")).verdict == "Blocked"


@pytest.mark.parametrize(
    ("before", "name"),
    [
        ("(step=0000059) Train Loss mse: 0.01, Train Loss ce: 0.05\n", "main"),
        ("", "Module._wrapped_call_impl"),
        ("", "_call_impl"),
    ],
)
def test_a_step_or_a_call_of_a_module_shows_that_the_model_was_built(before: str, name: str, tmp_path: Path) -> None:
    frame = f'  File "/e/lib/python3.12/site-packages/torch/nn/modules/module.py", line 7, in {name}\n    x()\n'
    raised = f"Traceback (most recent call last):\n{frame}torch.OutOfMemoryError: CUDA out of memory.\n"
    answer = triaged(tmp_path, before + raised)
    assert (answer.verdict, answer.boundary) == ("Fail", "memory")


def test_tests_that_train_a_little_pass(tmp_path: Path) -> None:
    assert triaged(tmp_path, epoch(1) + "=== 3 passed in 2.31s ===\n").verdict == "Pass"


def test_an_error_that_names_an_epoch_is_no_line_of_metrics(tmp_path: Path) -> None:
    answer = triaged(tmp_path, epoch(1) + epoch(2) + epoch(3) + "RuntimeError: Epoch 4/4, loss: 1.6 diverged\n")
    assert (answer.verdict, answer.evidence) == ("Fail", "RuntimeError: Epoch 4/4, loss: 1.6 diverged")


def test_what_a_script_prints_beside_a_trainer_changes_nothing(tmp_path: Path) -> None:
    healthy = (Path(__file__).parent / "healthy" / "verl_ppo.log").read_text()
    both = triaged(tmp_path, healthy.replace("step:2 - ", ALL + ALL + "step:2 - ", 1))
    assert (both.verdict, "runs" in both.advice) == ("Pass", False), both
    many = "".join(epoch(number, total=40) for number in range(1, 41))
    idle = re.sub(r"(step:(?:[3-9]|1\d) .*?actor/grad_norm:)[\d.]+", r"\g<1>0.0", healthy)
    for log in (idle, many + idle, idle.replace("step:3 - ", many + "step:3 - ", 1)):
        assert triaged(tmp_path, log).verdict == "Unknown"
    lines = (Path(__file__).parent / "healthy" / "hf_notebook.log").read_text().splitlines(keepends=True)[2:]
    unmoved = re.sub(r"('grad_norm': )[\d.]+", r"\g<1>0.0", "".join(lines))
    assert [triaged(tmp_path, log).verdict for log in ("".join(lines), unmoved, many + unmoved)] == ["Pass", "Unknown", "Unknown"]


def test_a_number_that_is_not_finite_in_any_state_of_a_bar_of_lightning_counts(tmp_path: Path) -> None:
    healthy = (Path(__file__).parent / "healthy" / "lightning.log").read_text()
    state = "Epoch 1:  50%|#####     | 5/10 [00:01<00:01,  4.9it/s, train_loss={}]\rEpoch 1: 100%"
    for value, verdict in (("0.5", "Pass"), ("nan", "Fail")):
        assert triaged(tmp_path, healthy.replace("Epoch 1: 100%", state.format(value))).verdict == verdict
