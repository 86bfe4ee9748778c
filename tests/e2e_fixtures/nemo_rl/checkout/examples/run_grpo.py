from training import FAULT, configured, train

config = configured("grpo_math_1B.yaml")


def metrics(step):
    error = {"mismatch": 1.4, "nan": float("nan") if step > 1 else 1.01}.get(FAULT, 1.01)
    return {
        "train/loss": 1 / step,
        "train/reward": 0.01 if FAULT == "no-reward" else 0.1 + step / 100,
        "train/token_mult_prob_error": error,
        "train/probs_ratio_clamped_min": 0.99,
        "train/probs_ratio_clamped_max": 1.01,
        "train/gen_kl_error": 0.0003,
        "train/grad_norm": float("inf") if FAULT == "infinite" and step > 1 else 0.5,
    }


train(config, config["grpo"]["max_num_steps"], metrics)
