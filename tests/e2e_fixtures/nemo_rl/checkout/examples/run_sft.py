from training import FAULT, configured, train

config = configured("sft.yaml")
megatron = config["policy"]["megatron_cfg"]["enabled"]
loss = 1.4 if FAULT == "resumes-worse" and megatron else 1.0
train(config, config["sft"]["max_num_steps"], lambda step: {"train/loss": loss / step, "train/lr": 1e-6, "train/grad_norm": 0.5})
