from training import FAULT, configured, say, train

config = configured("vlm_grpo_3B.yaml" if __file__.endswith("run_vlm_grpo.py") else "grpo_math_1B.yaml")
policy = config["policy"]
generation = policy["generation"]
TIMING = "timing/train/prepare_for_generation/"


def metrics(step):
    error = {"mismatch": 1.4, "nan": float("nan") if step > 1 else 1.01}.get(FAULT, 1.01 + step / 10000)
    values = {
        "train/loss": 1 / step,
        "train/reward": 0.01 if FAULT == "no-reward" else 0.1 if FAULT == "flat" else 0.1 + step / 100,
        "train/token_mult_prob_error": error,
        "train/probs_ratio_clamped_min": 0.99,
        "train/probs_ratio_clamped_max": 1.01,
        "train/gen_kl_error": 0.0003 + step / 1e6,
        "train/grad_norm": float("inf") if FAULT == "infinite" and step > 1 else 0.5 + step / 100,
    }
    if not step % config["grpo"]["val_period"]:
        values["validation/accuracy"] = 0.1 if FAULT == "flat" else 0.1 + step / 100
    if "draft" in policy:
        say(f"• Draft Loss: {1 / step:.4f}")
        values["train/draft_loss"] = 0.0 if FAULT == "no-draft" else 1 / step
    if not generation["colocated"]["enabled"]:
        values |= {f"{TIMING}total": 3.0, f"{TIMING}transfer_and_update_weights": 1.0}
    if generation["refit_transport"] == "vllm_zmq_sparse" and FAULT != "no-delta":
        say("REFIT_ZMQ_DELTA_CHANGE changed_elements=10 total_elements=1000 changed_pct=1")
    return values


if "quant_cfg" in policy:
    say("(VllmWorker pid=1) VllmQuantInternalWorkerExtension")
start = {"validation/accuracy": 0.1} if config["grpo"]["val_at_start"] else {}
train(config, config["grpo"]["max_num_steps"], metrics, start)
