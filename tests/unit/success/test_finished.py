"""Logs of programs that train nothing: their own report of the end passes, and with one lie or doubt it never does."""

from __future__ import annotations

from pathlib import Path

import pytest
from odd_numbers import explain_with_odd_numbers
from triaging import triaged

from mvp_helpers.log_text import log_lines
from mvp_helpers.success import finished

EVALUATION = (
    "model: /models/small, 120 questions\n"
    "answered 60 of 120\n"
    "answered 120 of 120\n"
    "accuracy 0.425, errors: 0\n"
    "Results saved to results/arithmetic.json\n"
)
BENCHMARK = (
    "engine ready after 12 s\n"
    "concurrency 2: 310 tokens/s\n"
    "concurrency 8: 940 tokens/s\n"
    "Benchmark finished at Tue Nov 3 10:12:01 2026\n"
)
BENCHED = (
    "Namespace(num_prompts=40)\n============ Serving Benchmark Result ============\n"
    "Successful requests: 40\nFailed requests: 0\n========\n"
)
CONVERSION = "reading 4 shards\nwriting layers\nCONVERT_EXIT_CODE=0\n"
BATCH = (
    "Sender: LSF System <root@n7>\nSubject: Job 812: <convert> in cluster <lab> Done\n\nSuccessfully completed.\n\n"
    "The output (if any) follows:\n\n4 files converted\n"
)
CONDOR = (
    "001 (12.000.000) Job executing on host: n7\n005 (12.000.000) Job terminated.\n\t(1) Normal termination (return value 0)\n"
)
HEALTHY = {
    "a status behind a name": "reading 4 shards\nwriting layers\nCOPY_DONE rc=0\n",
    "a count of all files": "[download] 3 files\n[dl 1/3] a.hdf5 702MB\n[dl 2/3] b.hdf5 71MB\n[dl 3/3] c.hdf5 7MB\n"
    "[download] DONE 3/3\n",
    "evaluation": EVALUATION,
    "benchmark": BENCHMARK,
    "conversion": CONVERSION,
    "batch": BATCH,
    "alone": "counting words\nall done!\n",
    "of a part of the data": "Generating train split\nfetched (HTTP/1.1 404 Not Found), taking the other\n" + EVALUATION,
    "words of success before notes": "latency 4 us\n✓ Test completed successfully\n\nNotes:\n"
    "  - it uses the plugin\n  - compare\n  - rest\n",
    "a table after its words": "Results saved to out.csv\n"
    + "".join(f"  case_{n}    {n}.5    {n}.1%    {n}01MB\n" for n in range(1, 7)),
    "a logger with dashes": "2026-01-31 10:00:00,123 - layer_1: overlap 0.49\n"
    "2026-01-31 10:00:01,123 - === MoE Analysis Complete ===\n",
    "results under their heading": "scored 40 prompts\n=== Strict results ===\n"
    "format:list 0.88\nwords: 0.5\nrepeat_span = 12.5 tokens/s\n",
    "a table under its heading": "-> best 5/5, avg 5.0\nSPEED SUMMARY\nModel | Setting | Best | Decode\n"
    "small 4B | one | 21/22 | 53.6 t/s\nlarge 9B | two | 20/22 | 44.5 t/s\n",
    "results of a file": "Generated out/a_results.jsonl\nout/a_results.jsonl Accuracy Scores:\nformat 0.5\nwords:all 0.25\n",
    "a tokenizer": "Starting tokenizer training...\nTraining a BPE tokenizer on 19 texts\n"
    "Tokenizer training completed successfully. Saved to out/tokenizer.json\n",
    "an evaluation by its time": "Perplexity on c4: 10.96\n\nTime for inference: 82.63 sec total, 11530.12 tokens/sec\n"
    "Memory used: 28.20 GB\n",
    "downloads": "Fetching 2 files: 100%|###| 2/2 [00:01<00:00,  1.9s/it]\nDOWNLOADS DONE\n",
    "checks": "== shapes ==\n  K=64 rel=2.45e-04 [OK]\nRESULT: gemv=PASS  lora=PASS\n",
    "a result of everything": "Resolved 9 packages in 14ms\nwarning: Failed to hardlink files; falling back to full copy.\n"
    "3 of 10 (30%)\nFinal: 4/10 (40.0%)\naccuracy: 40%\n",
    "parts of the data": "Splitting and saving\n  train: 148 pairs\n  val: 18 pairs\n\nDone! Corpus=166, Train=148\n",
    "a file about the training": "[SPLIT] train[:1000]\nCreated training_manifest.json\n" + EVALUATION,
    "requests that were sent again": "INFO _base_client.py:1621: Retrying request to /chat/completions in 0.45 seconds\n"
    + EVALUATION,
    "a notice of a package": "/opt/lib/x.py:65: FutureWarning: pynvml is deprecated, or it fails later\n" + EVALUATION,
    "parts that are counted": "".join(f"[{n}/3] paper_{n}.pdf\n  https://q/{n}\n  -> ok bytes={n}03\n" for n in (1, 2, 3)),
    "an indented summary after its words": "Evaluation completed! Results saved to a.json\nBy category:\n"
    + "".join(f"  {name}: 8 prompts, 1.8s avg, 7 words avg\n" for name in ("long", "short", "hard", "easy")),
    "a train that is none": "A train leaves the station at 2 PM | 55.0 tok/s\n" + EVALUATION,
    "a package that would be faster": "`flash-attention` package not found, consider installing it: x\n"
    "`a` is deprecated. Calling `b` will raise error from v4.48\n" + EVALUATION,
    "Airflow": "[2025-10-31T10:02:20.103+0000] {local_task_job_runner.py:240} INFO - Task exited with return code 0\n",
    "in Greek": "η αξιολόγηση\nη αξιολόγηση ολοκληρώθηκε επιτυχώς!\n",
    "where it was written": "Found 2 episodes\n✓ Done! Dataset saved to: /q/data\n  Action space used: delta\n",
    "with a time": "- reading\n ✔ Done! (in 3s 797ms)\n",
    "all of them": "Processing tags.sql\nSuccessfully restored tags.sql\nSuccessfully restored 86 / 86 SQL files\n",
    "a shard": "[time] resume_scan=0.33s\n[done] shard-id=0 processed=318 samples (pending at start=318).\n",
    "llama.cpp's perplexity": "1.00 seconds for each pass\n1.40.220.756 I Final estimate: PPL = 9.9691 +/- 0.07641\n",
    "a test set": "11/17/2024 11:07:50 - INFO - __main__ -   Test accuracy: 41.9\nWall time: 41min 35s\n",
    "one that was saved": "converting layer 1\nSuccessfully saved the weights to /out/hf\n",
    "data that were prepared": "Loading and preprocessing data from raw/train.csv...\n"
    "Data cleaned: removed duplicates and missing values.\nSaved train data to out/train_data.csv\n"
    "Preprocessing complete. Processed data saved to out\n",
    "a build before a benchmark": "csrc/binding.cpp [skipped, no changes]\n"
    "Total number of unsupported CUDA function calls: 0\n  return overrides().subprocess_timeout\n"
    "Guessing device ID. This can cause a hang\n 20   1   32   0.03   66.9   1.98x\nSaved benchmark CSV to run.csv\n",
    "several numbers of each": "clearing memory\nCOMPARISON SUMMARY\nA: 17.19s, ~1024 tokens, 59.6 tok/s\n"
    "B: 15.56s, ~836 tokens, 53.7 tok/s\n",
    "a file of results": "WARNING: x\n/opt/x.py:2: UserWarning: Failed to find a system library. Using the one inside.\n"
    '  warn("cannot find it")\n'
    "episode 99: success\nData has been saved to out/eval_result/run_4/a.txt\n",
    "the files below its words": "INFO Inference Complete!\nINFO Total predictions: 300\nINFO Results saved to: out/\n"
    "INFO Main files:\nINFO    - predictions_1.csv (full results)\nINFO    - summary.json (statistics)\nINFO    - scores_b.csv\n"
    "INFO    - scores_c.csv\n",
    "a result with a remark": "gated: 796\nOverall accuracy (original answers): 0.33\nOverall accuracy (after gating):   0.328\n",
    "its status": "scored 8 of 8 videos\n[STATUS]  SUCCESS: data/scored.parquet is ready\n",
    "parts of the data in bars": "Saving train:   0%|   | 0/167 [00:00<?, ?it/s]\r"
    "Saving train: 100%|###| 167/167 [00:01<00:00, 99it/s]\n"
    "Split training and testing data with ratio 0.8\nAll done!\n",
    "a message that logging could not format": "asked 4 questions\n--- Logging error ---\nTraceback (most recent call last):\n"
    '  File "/usr/lib/python3.12/logging/__init__.py", line 377, in getMessage\n    msg = msg % self.args\n'
    "TypeError: not all arguments converted during string formatting\nCall stack:\n"
    '  File "/u/ask.py", line 3, in <module>\n    main()\n'
    "Message: 'use a data set'\nArguments: (<class 'UserWarning'>,)\n" + EVALUATION,
    "the only file, at the end": "".join(f"add row {n}\n" for n in range(12)) + "saved to queries.json, all of them: 12\n",
    "in Chinese, before a summary": "✅ 全量建图完成!\n📊 统计:\n - 样本数: 7405\n - 平均: 0.251s\n"
    "📂 目录: /data/graph\n📝 下一步:\n 运行: python evaluate.py\n",
    "ids that look like large numbers": "candidate 7 of step 69: parent: 7e789599, score: 0.4\n" + EVALUATION,
    "data for a training, in a table": "0  {'index': 0, 'split': 'train'}\n1  {'index': 1, 'split': 'train'}\n"
    + "".join(f"{n}  row {n}\n" for n in range(9))
    + "Saved to: /data/my_train_part.parquet\n",
    "a rate of success": "INFO: 500 cases\nINFO: Testing success rate: 0.34, path length: 17.75\n",
    "what was processed": "reading 3 tasks\n" + "Episodes: 100%|###| 9/9 [00:52<00:00,  2.69s/ep]\n" + "Processing complete.\n",
    "a summary that counts": "[infer] case 1 done\n[infer] shard 1/8 summary: done=6 skipped=0 failed=0\n",
    "all of several": "[p1] launch one\n[p1] COMPLETE: 12/12 ok, 0 FAILED, wall=49.4 min\n",
    "a detector's inference": "YOLOv5s summary: 157 layers, 7020913 parameters, 0 gradients, 15.8 GFLOPs\n"
    "image 1/1 /data/a.jpg: 352x640 1 D00, 9.3ms\nResults saved to runs/detect/a7\n",
    "in Russian": "Вопросов: 40\nF1: 0.56\n- Результаты сохранены в out/metrics.json\n",
    "in Chinese": "读取 4 个文件\n统计摘要已保存: out/summary.json\n",
    "Kaldi": "LOG (gmm-latgen-faster[5.5]:main():gmm-latgen-faster.cc:179) Done 29 utterances, failed for 0\n"
    "# Ended (code 0) at Tue Feb  3 10:00:12 UTC 2026, elapsed time 12 seconds\n",
    "Optimum's export": "Validating ONNX model out/model.onnx...\n\t\t-[✓] all values close (atol: 1e-05)\n"
    "The ONNX export succeeded and the exported model was saved at: out\n",
    "AutoAWQ": 'AWQ: 100%|###| 32/32 [08:00<00:00, 15.0s/it]\nModel is quantized and saved at "out-awq"\n',
    "a warning of joblib": "/lib/x.py:46: UserWarning: [Errno 28] No space left on device.  joblib will operate in serial mode\n"
    "asked 3 questions\nResults saved to out/results.json\n",
    "a part of the data, named like another line": "Split begin.\nSaving it for training in ./out/a.txt\nSplit done.\n",
    "an import": "🔄 Starting import: a/b -> /out/megatron\n✅ Successfully imported model to: /out/megatron\n",
}
LIES = {
    "an error": lambda log: "ERROR: question 7 has no answer\n" + log,
    "an error in a sentence": lambda log: "the judge failed twice\n" + log,
    "an error in another language": lambda log: "评测失败: 7\n" + log,
    "a traceback": lambda log: 'Traceback (most recent call last):\n  File "x.py", line 3, in ask\nKeyError: 7\n' + log,
    "a number that is none": lambda log: "mean length: nan\n" + log,
    "a training": lambda log: "training for 3 rounds\n" + log,
    "a loss": lambda log: "loss 0.31\n" + log,
    "memory": lambda log: "out of memory, taking the smaller batch\n" + log,
    "an exit status": lambda log: log + "exit status: 1\n",
    "killed": lambda log: log + "Killed\n",
    "more work": lambda log: log + "".join(f"reading part {part}\n" for part in range(5)),
}


REPORTS = {
    "docker pull": "latest: Pulling from a/b\naece: Pull complete\nDigest: sha256:2b\n"
    "Status: Downloaded newer image for a/b:latest\ndocker.io/a/b:latest\n",
    "conda": "Executing transaction: done\n#\n# To activate this environment, use\n#\n#     $ conda activate rl\n#\n"
    "# To deactivate an active environment, use\n#\n#     $ conda deactivate\n",
    "wget": "Length: 438 [text]\na.gguf  100%[===>]  438  --.-KB/s  in 0s\n\n"
    "2026-01-03 10:00:48 (87.1 MB/s) - 'a.gguf' saved [438/438]\n",
    "unittest": "test_one (tests.A) ... ok\ntest_error (tests.A) ... ok\n\n-----\nRan 2 tests in 0.003s\n\nOK (skipped=1)\n",
    "llama-quantize": "[ 427/ 427] output.weight, type = f16\nllama_quantize: quantize time = 73112.83 ms\n"
    "llama_quantize:    total time = 73112.83 ms\n",
    "CMake's configuration": "-- Configuring done (4.2s)\n-- Build files have been written to: /src/build\n",
    "gpu-burn": "Uninitted cublas\ndone\n\nTested 2 GPUs:\n\tGPU 0: OK\n\tGPU 1: OK\n",
    "pip": "Collecting a\n  Downloading async_timeout-5.0.1-py3-none-any.whl (5 kB)\nSuccessfully built a\n"
    "Successfully installed a-1.0 async_timeout-5.0.1\n\n[notice] A new release of pip is available: 24.0 -> 25.1\n",
    "a wheel, and the status of its command": "adding 'v/exceptions.py'\nSuccessfully built v\n"
    "Removed build tracker: '/t/x'\nBUILD_EXIT_CODE=0\n",
    "pip that a build calls": "Collecting a\n  Running command pip install setuptools\n"
    "  ERROR: pip's dependency resolver does not currently take into account all the packages that are installed. "
    "This behaviour is the source of the following dependency conflicts.\n"
    "  b 1.0 requires a<1, but you have a 1.0 which is incompatible.\n  Successfully installed setuptools-67.2.0\n"
    "Successfully installed a-1.0\nWARNING: You are using pip version 21.3.1; however, version 23.0 is available.\n"
    "You should consider upgrading via the '/opt/python -m pip install --upgrade pip' command.\n",
    "a serving benchmark with all its options": "Namespace(num_prompts=40, asr_max_audio_len_sec=inf, seed=1)\n"
    "============ Serving Benchmark Result ============\n"
    "Successful requests:                     40\nFailed requests:                         0\n========\n",
    "uv": "Resolved 3 packages in 2ms\nInstalled 2 packages in 1ms\n + a==1.0\n + b==2.0\n",
    "pip, about packages that were there": "Collecting a\n"
    "ERROR: pip's dependency resolver does not currently take into account all the packages that are installed. "
    "This behaviour is the source of the following dependency conflicts.\n"
    "b 1.0 requires a<1, but you have a 1.0 which is incompatible.\n"
    "Successfully installed a-1.0\n",
    "uv, of what was there": "Resolved 124 packages in 1ms\nAudited 98 packages in 0.02ms\n",
    "llama.cpp's export": "INFO:hf-to-gguf:Loading model: a\nINFO:hf-to-gguf:loss of precision: none\n"
    "Writing: 100%|###| 47.1G/47.1G [02:45<00:00, 284Mbyte/s]\nINFO:hf-to-gguf:Model successfully exported to a-bf16.gguf\n",
    "hf download": "Downloading 'trainer_state.json' to 'a/.cache'\nFetching 2 files:  50%|#  | 1/2 [00:01<00:01,  1.3s/it]\r"
    "Fetching 2 files: 100%|###| 2/2 [00:02<00:00,  1.3s/it]\n/models/a\n",
    "setuptools": "Installed /q/a-1.0-py3.12.egg\nFinished processing dependencies for a==1.0\n",
    "CMake": "[ 50%] Building CUDA object errors.cu.o\n[100%] Linking CXX shared library liba.so\n[100%] Built target a\n",
    "Docker": "#12 DONE 54.6s\n\n#13 exporting to image\n#13 naming to docker.io/a/b:v1 done\n#13 DONE 11.0s\n",
    "Docker, with warnings": "#24 naming to docker.io/a/b:v1 done\n#24 DONE 14.2s\n\n"
    " 2 warnings found (use docker --debug to expand):\n"
    '\x1b[0m - LegacyKeyValueFormat: "ENV key=value" should be used instead of legacy "ENV key value" format (line 17)\n'
    " - FromAsCasing: 'as' and 'FROM' keywords' casing do not match (line 13)\n\nView build details: docker-desktop://x\n",
    "nccl-tests": "# nThread 1 nGpus 8\n#   size  time algbw busbw #wrong\n   8589934592  63896  134.44  235.26  N/A\n"
    "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 68.4048\n#\n\nn1:7:9 [0] NCCL INFO RAS thread terminating\n",
    "lm-eval": "Saving results aggregated\n|Tasks|Version|     Filter     |n-shot|  Metric   |   |Value|   |Stderr|\n"
    "|-----|------:|----------------|-----:|-----------|---|----:|---|-----:|\n"
    "|gsm8k|      3|flexible-extract|     5|exact_match|↑  |  0.6|±  |0.1633|\n"
    "|     |       |strict-match    |     5|exact_match|↑  |  0.7|±  |   N/A|\n",
    "lm-eval, before": "|    Tasks    |Version|Filter|n-shot| Metric |Value |   |Stderr|\n"
    "|-------------|-------|------|-----:|--------|-----:|---|-----:|\n"
    "|             |       |none  |     0|acc_norm|0.2867|±  |0.0132|\n",
    "a serving benchmark": "Namespace(num_prompts=128)\n100%|###| 128/128 [00:09<00:00, 13.97it/s]"
    "============ Serving Benchmark Result ============\nSuccessful requests:                     128\n"
    "Benchmark duration (s):                  9.16\n---------------Time to First Token----------------\n"
    "Mean TTFT (ms):                          9626.13\n=======\n",
    "several serving benchmarks": "".join(
        f"Namespace(num_prompts={n})\nTraffic request rate: inf\n============ Serving Benchmark Result ============\n"
        f"Successful requests:         {n}\nRequest throughput (req/s):  1.41\n=====\nCompleted benchmark with num_prompt={n}.\n"
        for n in (24, 48)
    ),
    "a serving benchmark that counts what failed": "============ Serving Benchmark Result ============\n"
    "Successful requests:                     40\nFailed requests:                         0\n"
    "Benchmark duration (s):                  9.16\n==================================================\n",
    "a serving benchmark with spaces at its ends": "============ Serving Benchmark Result ============\n"
    "Successful requests:                     40       \nFailed requests:                         0         \n"
    "Benchmark duration (s):                  9.16     \n==================================================\n",
    "Docker's pull from another registry": "025c6550ac46: Pull complete\nDigest: sha256:93529abd\n"
    "Status: Downloaded newer image for nvcr.io/nvidia/tensorflow:24.02-tf2-py3\nnvcr.io/nvidia/tensorflow:24.02-tf2-py3\n",
    "a serving benchmark in colours": "============ \x1b[1mServing Benchmark Result\x1b[0m ============\n"
    "Successful requests:                     40\nFailed requests:                         0\n========\n",
    "datasets": "Creating parquet from Arrow format: 100%|###| 7/7 [00:01<00:00, 21ba/s]\n"
    "Uploading the dataset shards: 100%|###| 3/3 [00:41<00:00, 16.2s/it]\n",
    "llama-bench": "| model | size | backend | test |          t/s |\n| ----- | ---: | ------- | ---: | -----------: |\n"
    "| a 7B  |  4 GiB | CPU | tg256 | 23.84 ± 0.06 |\n\nbuild: b820cc8e6 (9856)\n",
    "pip, below PowerShell": "Collecting a\nSuccessfully installed a-1.0\npip : \nAt line:1 char:31\n"
    "+ ... pip install a 2>&1 | Tee-Object\n"
    "+     ~~~~~~~\n    + CategoryInfo          : NotSpecified: (:String) [], RemoteException\n"
    "    + FullyQualifiedErrorId : NativeCommandError\n[notice] A new release of pip is available: 24.0 -> 26.0.1\n",
    "Ray Tune": "(f pid=7) INFO: upgrade, add_is_nan_constraint\nTrial status: 3 TERMINATED | 1 RUNNING\n"
    "Trial status: 4 TERMINATED\nTotal run time: 97.06 seconds (96.99 seconds for the tuning loop).\nbest: 0.98\n",
    "fairseq": "Namespace(criterion='cross_entropy', lr=[0.25], trainpref='a')\n"
    "[en] Dictionary: 144 types\nWrote preprocessed data to d\n",
}
"""The last lines of known programs, some with words of a training."""
REPORT_LIES = {
    "a traceback": LIES["a traceback"],
    "an ERROR line": lambda log: "ERROR: part 3 was not built\n" + log,
    "an exit status": lambda log: log + "exit status: 1\n",
    "killed": lambda log: log + "Killed\n",
    "more work": lambda log: log + "Trial status: 1 RUNNING\nreading the next part\n",
    "values out of bounds": lambda log: "# Out of bounds values : 3 FAILED\n" + log,
    "a training in progress": lambda log: "Epoch 1/4, Loss: 1.9\n" + log,
}


@pytest.mark.parametrize("name", REPORTS)
def test_the_report_of_a_known_program_passes_and_with_one_lie_it_does_not(tmp_path: Path, name: str) -> None:
    found = triaged(tmp_path, REPORTS[name])
    assert found.verdict == "Pass" and found.evidence in log_lines.plain(REPORTS[name].encode())
    assert [lie for lie, told in REPORT_LIES.items() if triaged(tmp_path, told(REPORTS[name])).verdict == "Pass"] == []


@pytest.mark.parametrize(
    "log",
    [
        REPORTS["lm-eval"].replace("0.7", "nan"),
        REPORTS["lm-eval"].partition("|gsm8k")[0],
        "a|1|2|3|\n" + REPORTS["lm-eval"].rpartition("|     |")[2],
        "[ 99%] Built target a\n",
        "Created wheel for a\nSuccessfully built a\n",
        "#5 [2/7] RUN make\n#5 0.41 all\n#5 DONE 3.2s\n",
        "Would have installed a-1.0\n",
        REPORTS["a serving benchmark"].replace("requests:                     128", "requests:                     120"),
        REPORTS["a serving benchmark"].replace("9626.13", "nan"),
        REPORTS["a serving benchmark"].partition("100%")[2].partition("[")[2],
        REPORTS["a serving benchmark that counts what failed"].replace(" 0\n", " 3\n"),
        REPORTS["a serving benchmark that counts what failed"].replace(" 40\n", " 0\n"),
        REPORTS["a serving benchmark"] + "starting the next one\n",
        REPORTS["several serving benchmarks"].replace("requests:         24", "requests:         23"),
        REPORTS["a serving benchmark that counts what failed"].rpartition("====\n")[0].rstrip("="),
        "Building wheels for collected packages: a\n  Building wheel for a (setup.py) ... done\n  Created wheel for a: x.whl\n",
        "one question was refused\n" + REPORTS["a serving benchmark"],
        REPORTS["datasets"].replace("3/3", "2/3").replace("shards: 100%", "shards:  66%"),
        "".join(f"add row {n}\n" for n in range(12)) + "saved to a.json\nsaved to b.json\n",
        "".join(f"add row {n}\n" for n in range(12)) + "saved to a.json\n" * 2,
        "".join(f"add row {n}\n" for n in range(12)) + "saved to a.json\nreading the next part\n",
        "✅ 模块初始化完成\n",
        "build: 9856 (b820cc8e6) with cc (Ubuntu 13.2.0)\n",
        *(
            f"Collecting a\nInstalling collected packages: a\nSuccessfully installed a-1.0\n{end}\n"
            for end in (
                "Job ended by walltime",
                "Job ended by user request",
                "Job finished with 3",
                "Script finished unsuccessfully",
            )
        ),
        "3 prompts\nrequests_ended_on_timeout=3\nInference finished.\n",
        "=== Results ===\nwaiting for them\n",
        "=== Results ===\n",
        "some lines\nformat:list 0.88\nwords: 0.5\n",
        "one line\nanother line\nbackend status: 0\n",
    ],
)
def test_a_report_that_is_cut_off_or_none_does_not_pass(tmp_path: Path, log: str) -> None:
    assert triaged(tmp_path, log).verdict != "Pass"


@pytest.mark.parametrize("name", HEALTHY)
def test_the_end_of_work_passes_and_is_named(tmp_path: Path, name: str) -> None:
    found = triaged(tmp_path, HEALTHY[name])
    assert found.verdict == "Pass" and found.evidence in HEALTHY[name] and "no training" in found.advice


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("name", HEALTHY)
def test_no_lie_passes(tmp_path: Path, name: str, lie: str) -> None:
    if lie == "more work" and name == "batch":
        return  # LSF's report precedes the output
    assert triaged(tmp_path, LIES[lie](HEALTHY[name])).verdict != "Pass"


SUMMARY = (
    "warming up\nPrefill Latency: 65.4 ms\n=== BENCHMARK SUMMARY ===\nModel: Kea-30B\nBackend: fast (v2)\n"
    "--- Prefill ---\nThroughput: 12556.9 tok/s\n--- Decode ---\nThroughput: 298.3 tok/s\n"
)
CELLS = (
    "ready\nKEA 31B-IT + iso3/iso3 SUMMARY\n32K   | VRAM  23473 MB | best 22/22 | decode  39.7 t/s | vs turbo -21.1%\n"
    "128K  | VRAM  28828 MB | best 5/5 | decode  39.6 t/s | vs turbo -21.3%\n==========\n"
)

STATED = "Total evaluations: 3\nStep range: 25 - 75\nDetailed Results:\n Step | Score | Revision\n------\n" + "".join(
    f" {step} | 0.4{step} | main-{step}\n" for step in (25, 50, 75)
)


@pytest.mark.parametrize("log", [SUMMARY, CELLS, STATED, SUMMARY + "Total requests: 500\nSuccessful requests: 500\n"])
def test_results_below_their_heading_end_a_program(tmp_path: Path, log: str) -> None:
    assert triaged(tmp_path, log).verdict == "Pass"


@pytest.mark.parametrize(
    "log",
    [
        "scoring 5 tasks\n" + "".join(f"Results saved to results/{task}.json\n" for task in ("add", "sort")),
        "loading\nDownload complete\n",
        STATED.replace("Total evaluations: 3\n", "").replace(" 75 | 0.475 | main-75\n", ""),
        STATED.replace("Step range: 25 - 75\n", "").replace(" 75 | 0.475 | main-75\n", ""),
        "Benchmark finished at 10:12\nEvaluating the other model...\n",
        "checking the data\nwill run the evaluation when the build is done\n",
        "3 / 5 runs finished\n",
        "Subject: Job 811: <convert> in cluster <lab> Exited\n" + BATCH,
        "done\n\nTested 2 GPUs:\n\tGPU 0: OK\n\tGPU 1: FAULTY\n",
        "end\n\nTested 3 GPUs:\n\tGPU 0: OK\n\tGPU 1: OK\n",
        "Final: 4/10\nFinal: 5/10\n",
        "ok\nRan 0 tests in 0.003s\n\nOK\n",
        "2026-01-03 10:00:01 ERROR 404: Not Found.\n\n2026-01-03 10:00:48 (87.1 MB/s) - 'a.gguf' saved [438/438]\n",
        "2026-01-03 10:00:48 (87.1 MB/s) - 'a.gguf' saved [402/438]\n",
        "".join(f"[{n}/3] paper_{n}.pdf\n  -> ok\n" for n in (1, 2)) + "[3/3] paper_3.pdf\n",
        "".join(f"[{n}/4] paper_{n}.pdf\n  -> ok\n" for n in (1, 2, 3)),
        "[1/3] a\n  -> ok\n[3/3] c\n  -> ok\n",
        "σφάλμα: η λήψη\nη αξιολόγηση ολοκληρώθηκε\n",
        "".join(f"[{n}/3] paper_{n}.pdf\n  -> {code}\n" for n, code in ((1, 200), (2, 404), (3, 200))),
        "Final: 3 of 10 parts\n",
        "Trial status: 3 TERMINATED | 1 ERROR\n",
        "Namespace(num_prompts=100)\n=== Serving Benchmark Result ===\nSuccessful requests:  90\nFailed requests:  0\n======\n",
        "=== Serving Benchmark Result ===\nSuccessful requests:  9\nFailed requests:  0\nTotal generated tokens:  0\n======\n",
        "Trial status: 4 TERMINATED\nCurrent best trial: 6fe47_00001 with loss=None and params={'lr': 0.001}\n",
        "Trial status: 4 TERMINATED\nthe best one is missing\n",
        "Saved test data to data/processed/a.csv\n",
        "Total number of unsupported calls: 3\n" + EVALUATION,
        "the server skipped: 3, reason: 0\n" + EVALUATION,
        "read_timeout exceeded\n" + EVALUATION,
        "Final: 3/10\n",
        "INFO: start\nINFO: Testing success rate: 0.00, timeout rate: 1.00\n",
        BENCHED.replace("prompts=40)", "prompts=40) ERROR: warm-up failed"),
        *(BENCHED.replace("Failed requests: 0", f"Failed requests: {count}") for count in ("9" * 13, "nan", "1.5")),
        SUMMARY.rpartition("Throughput")[0],
        SUMMARY + "Loading model: kea-7b\n",
        SUMMARY + "--- Decode 2 ---\nModel: kea-7b\n",
        SUMMARY.replace("Backend: fast (v2)", "Loading backend: fast (v2)"),
        SUMMARY + "Part 2 runs now. Queue: 3\n",
        SUMMARY.replace("Throughput: 298.3 tok/s", "Throughput: nan tok/s"),
        SUMMARY + "Model: Kea-70B\nWarmup Requests: 10\n",
        SUMMARY.replace("BENCHMARK SUMMARY", "HARDWARE SUMMARY"),
        SUMMARY.replace("BENCHMARK", "PARTIAL"),
        SUMMARY.replace("Backend: fast (v2)", "Status: BAD"),
        SUMMARY * 2,
        SUMMARY.replace("warming up", "server ready on port 8080"),
        SUMMARY + "Total requests: 500\nSuccessful: 3\n",
        SUMMARY + "Evaluating: 12%\n",
        SUMMARY + "Passed: 0\n",
        SUMMARY + "HTTP 503: 988\n",
        SUMMARY.replace("warming up", "[2/3] kea-30b"),
        SUMMARY.replace("warming up", "10-fold cross validation\nfold 2"),
        CELLS.replace("32K  ", "item 32").replace("128K ", "item 64"),
        CELLS.replace("128K ", "item 3/9"),
        "[infer] case 1 done\n[infer] shard 1/8 summary: done=6 skipped=0 failed=2\n",
        "[infer] case 1 done\n[infer] shard 1/8 summary: done=0 skipped=6 failed=0\n",
        "[p1] launch one\n[p1] COMPLETE: 11/12 ok, 0 FAILED, wall=49.4 min\n",
        "[p1] launch one\n[p1] COMPLETE: 12/12 ok, 1 FAILED, wall=49.4 min\n",
        "YOLOv5s summary: 157 layers, 10 gradients, 15.8 GFLOPs\nResults saved to runs/detect/a7\n",
        "begin a training with Adam\nall done!\n",
        "Train: 5/10\nall done!\n",
        "el trabajo no completado\n",
        "Evaluation completed! Results saved to a.json\nStage two:\n" + "".join(f"  loading part: {n}\n" for n in range(4)),
        "Successfully restored 85 / 86 SQL files\n",
        "Successfully saved shard 1\nSuccessfully saved shard 2\n",
        "waiting\nstarting the evaluation of results that were saved\n",
        "nothing more\n",
        "Quantizing done\n[ 50%] loading model\n",
        "Merge complete\nUploading adapters to hub\n",
        "Merging done.\nEvaluating on 5 tasks\n",
        "data splitting finished\n(Worker pid=3) preparing model\n",
        "Extraction complete\nrunning convert.py --in a\n",
        "Split complete\n0 files written\n",
        "Building wheels: done\nSuccessfully installed UNKNOWN-0.0.0\n",
        "Split begin.\nSaving 80% of it for a training of 3 rounds\nSplit done.\n",
        "2026-01-31 10:00:01,123 - Analysis complete\n"
        + "".join(f"2026-01-31 10:00:02,123 - layer_{n} is next\n" for n in range(4)),
        "WARNING: the run is done\n",
        "asked 40 questions\n{'accuracy': 0.53}\n",
        "scored 40 prompts\nscore: -nan\nEvaluation finished.\n",
        "12 answers unparsable\nEvaluation finished.\n",
        "Unexpected end of file in test.jsonl\nEvaluation finished.\n",
        "loading\nAverage accuracy 0.000 - STEM\nAverage accuracy 0.000 - other\nAverage accuracy: 0.000\n",
        "check q_proj ✗\nConversion completed.\n",
        "błąd sieci\nEvaluation complete.\n",
        "Loaded 0 samples\nEvaluation complete.\n",
        "usage: evaluate.py [-h]\n  --out OUT  where the results are saved\n",
        "dry run: nothing is written\nDone.\n",
        "converted 199/200\nConversion complete.\n",
        "scoring:  57%|###  | 57/100 [00:10<00:08]\nResults saved to out.json\n",
        "KFold(n_splits=5)\nfold 3\nEvaluation complete.\n",
        "Selected Tasks: ['arc_easy', 'hellaswag']\n|Tasks|Version|Filter|n-shot|Metric|   |Value |   |Stderr|\n"
        "|---|---|---|---|---|---|---|---|---|\n|arc_easy|      1|none  |     0|acc   |↑  |0.4381|±  |0.0102|\n",
        "ss\nRan 2 tests in 0.001s\n\nOK (skipped=2)\n",
        "Subject: Job 811: <convert> in cluster <lab> Done\n\nThe output (if any) follows:\n\nusage: convert.py FILE\n",
        *(
            f"scored 40 prompts\nEvaluation complete.\n{end}\n"
            for end in (
                "\t(1) Normal termination (return value 1)",
                "\t(0) Abnormal termination (signal 9)",
                "exit code is 1",
                "exit code (1)",
                '{"exit_code": "1"}',
                "retcode: 1",
                "Command terminated by signal 9",
                "state JOB_STATE_FAILED",
            )
        ),
        "asked 40 questions\naccuracy: 0.0\nf1: 0\nEvaluation complete\n",
        CONDOR,
        "Fetching 3 files: 100%|###| 2/3 [00:02<00:00,  1.3s/it]\n/models/a\n",
        "== shapes ==\nRESULT: gemv=PASS  lora=FAIL\n",
        "asked for 40 answers\nINFO wrote answers.zip\n",
        "Use 'wait' for all background jobs to complete\n",
        "[2023-12-07 18:21:36,697 I 44 44] (gcs_server) gcs_init_data.cc:46: Finished loading the job table data\n",
    ],
)
def test_words_about_a_part_or_a_plan_are_no_end(tmp_path: Path, log: str) -> None:
    assert triaged(tmp_path, log).verdict != "Pass"


RULE = "-" * 78 + "\n"
KNOWN = {
    "MLPerf's trainings": ':::MLLOG {"key": "eval_error", "value": 0.12, "metadata": {"file": "train.py"}}\n'
    ':::MLLOG {"event_type": "INTERVAL_END", "key": "run_stop", "value": null, "metadata": {"lineno": 4, "status": "success"}}\n',
    "TensorRT-LLM": "[03/12/2026-10:21:11] [TRT-LLM] [I] Engine serialized. Total time: 00:00:02\n"
    "[03/12/2026-10:21:11] [TRT-LLM] [I] Total time of building all engines: 00:00:41\n",
    "TensorRT-LLM's benchmark": f"[02/14/2026-05:51:57] [TRT-LLM] [I] Cancelling all 0 tasks to complete.\n{RULE}"
    f"= PERFORMANCE OVERVIEW \n{RULE}Request Throughput (req/sec):    43.2089\nTotal Latency (ms):  69430.1\n\n{RULE}"
    f"= DATASET DETAILS\n{RULE}Number of Sequences:  3000\n{RULE}",
    "vLLM's throughput": "Processed prompts: 100%|###| 100/100 [00:20<00:00, 48.9it/s, est. speed input: 50.1 toks/s]\n"
    "Throughput: 48.89 requests/s, 56322.10 total tokens/s, 6257.20 output tokens/s\n",
    "vLLM's latency": "Avg latency: 1.2427 seconds\n"
    + "".join(f"{n}% percentile latency: 1.24{n} seconds\n" for n in (10, 25, 50, 75, 90, 99)),
    "SGLang without a server": "====== Offline Throughput Benchmark Result =======\nBackend:           engine    \n"
    "Successful requests:        2000      \nRequest throughput (req/s):      5.71      \n" + "=" * 50 + "\n",
    "perf_analyzer": "Inferences/Second vs. Client Average Batch Latency\n"
    "Concurrency: 1, throughput: 833.2 infer/sec, latency 1198 usec\n",
    "GenAI-Perf": "│ Request throughput (per sec) │   2.87 │    N/A │\n└──────┴──────┘\n"
    "2026-08-08 19:45 [INFO] genai_perf.export_data.json_exporter:56 - Generating a/profile.json\n"
    "2026-08-08 19:45 [INFO] genai_perf.export_data.csv_exporter:69 - Generating a/profile.csv\n",
    "MLPerf's load generator": "Result is : VALID\n  Min queries satisfied : Yes\n\nMean latency (ns)   : 2345678\n\n"
    "No warnings encountered during test.\n\nNo errors encountered during test.\n",
    "EvalPlus": "\x1b[31mhumaneval (base tests)\x1b[0m\n\x1b[31mpass@1:\t0.726\x1b[0m\n"
    "\x1b[32mhumaneval+ (base + extra tests)\x1b[0m\n\x1b[32mpass@1:\t0.671\x1b[0m\n",
    "BigCode's evaluation": 'Evaluating generations...\n{\n  "humaneval": {\n    "pass@1": 0.3109\n  },\n  "config": {\n'
    '    "model": "a/b"\n  }\n}\n',
    "MMLU": "Average accuracy 0.310 - algebra\nAverage accuracy 0.510 - anatomy\nAverage accuracy: 0.410\n",
    "OpenCompass": "05/19 15:54:54 - OpenCompass - INFO - write csv to /o/a.csv\nThe markdown format results is as below:\n\n"
    "| dataset | version | qwen |\n|----- | ----- | -----|\n| gsm8k | 1d7fe4 | 71.42 |\n\n"
    "05/19 15:54:54 - OpenCompass - INFO - write markdown summary to /o/a.md\n",
    "fairseq's generation": "10:00:09 | INFO | fairseq_cli.generate | Translated 6,750 sentences (165 tokens) in 43.1s\n"
    "Generate test with beam=5: BLEU4 = 34.95, 69.4/43.7/29.6/20.4 (BP=0.955, ratio=0.956)\n",
    "perftest": f"{RULE}                    RDMA_Write BW Test\n Mtu             : 4096[B]\n{RULE}"
    f" #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
    f" 65536      5000             392.05              391.04              0.745856\n{RULE}",
    "dcgmi": "Successfully ran diagnostic for group.\n+---------------------------+--------------+\n"
    "| Diagnostic                | Result       |\n+===========================+==============+\n"
    "| Driver Version Detected   | 550.54.15    |\n|-----  Deployment  --------+--------------|\n"
    "| Denylist                  | Pass         |\n| GPU Memory                | Pass - All   |\n"
    "| Memory Bandwidth          | Skip - All   |\n+---------------------------+--------------+\n",
    "fio": "randread: (groupid=0, jobs=1): err= 0: pid=3210: Tue Feb  3 10:01:00 2026\n  cpu : usr=20.10%, sys=60.20%\n\n"
    "Run status group 0 (all jobs):\n   READ: bw=785MiB/s (823MB/s), io=46.0GiB (49.4GB), run=60001-60001msec\n",
    "HPL": "||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)=        0.0013903 ...... PASSED\n\n"
    "Finished      1 tests with the following results:\n              1 tests completed and passed residual checks,\n"
    "              0 tests completed and failed residual checks,\n"
    f"              0 tests skipped because of illegal input values.\n{RULE}\nEnd of Tests.\n{RULE}",
    "STREAM": f"Triad:         115856.1     0.020010\n{RULE}"
    f"Solution Validates: avg error less than 1.000000e-13 on all three arrays\n{RULE}",
    "fastText": "Read 0M words\nProgress: 100.0% words/sec/thread:   66124 lr:  0.000000 avg.loss:  6.010432 ETA:   0h 0m 0s\n",
    "LLaMA-Factory's export": "[INFO|2026-02-03 10:00:02] llamafactory.train.tuner:143 >> Convert it: torch.bfloat16.\n"
    "[INFO|2026-02-03 10:00:09] llamafactory.train.tuner:143 >> Ollama modelfile saved in o/Modelfile\n",
    "ms-swift": "[INFO:swift] Saving merged weights...\n[INFO:swift] End time of running main: 2026-06-06 10:10:31.100\n",
    "ms-swift's export": "[INFO:swift] args: ExportArguments(model='Qwen/Qwen3-4B', truncation_strategy='raise')\n"
    "[INFO:swift] Successfully merged LoRA and saved in /q/merged.\n"
    "[INFO:swift] End time of running main: 2026-06-06 10:10:31.1\n",
    "Snakemake": "1 of 2 steps (50%) done\n2 of 2 steps (100%) done\nComplete log: .snakemake/log/a.snakemake.log\n",
    "Nextflow": "[2a/1b2c3d] process > MULTIQC     [100%] 1 of 1 ✔\nCompleted at: 03-Feb-2026 10:00:09\nDuration    : 1m 12s\n"
    "CPU hours   : 0.1\nSucceeded   : 3\n",
    "datatrove": "2026-02-03 10:00:09.300 | SUCCESS  | datatrove.executor.local:run:151 - \n\n📉📉📉 Stats: All 1 tasks 📉📉📉\n"
    "\nTotal Runtime: 8 seconds\n\n📖 - READER: 📖 Parquet\n",
    "DVC": "'data/raw.csv.dvc' didn't change, skipping\nRunning stage 'prepare':\n> python prepare.py\n"
    "Use `dvc push` to send your updates to remote storage.\n",
    "DVC's push": "Pushing\n3 files pushed\n",
    "torchtune's download": "README.md: 100%|###| 41.7k/41.7k\n"
    "Successfully downloaded model repo and wrote to the following locations:\n"
    "/data/m/model.safetensors\n",
    "MLflow's project": "2026/02/06 15:16:12 INFO mlflow.projects: === Running command 'python prepare.py' ===\n"
    "2026/02/06 15:16:57 INFO mlflow.projects: === Run (ID '9ca3') succeeded ===\n",
    "TensorRT-LLM's benchmark before 0.18": f"Scheduling Policy:      Guaranteed No Evict\n{RULE}"
    f"= PERFORMANCE OVERVIEW \n{RULE}Request Throughput (req/sec):    221.8\nTotal Latency (ms):  13525.7\n\n{RULE}",
    "rsync": "model/config.json\n\nsent 9,960,000,123 bytes  received 77 bytes  215,802,839.00 bytes/sec\n"
    "total size is 9,957,000,000  speedup is 1.00\n",
    "gsutil": "| [2/2 files][ 15.0 GiB/ 15.0 GiB] 100% Done  52.1 MiB/s\nOperation completed over 2 objects/15.0 GiB.\n",
    "Docker's push": f"5f70bf18a086: Pushed\nv1: digest: sha256:{'2b' * 32} size: 1570\n",
    "hf upload": "Processing Files (2 / 2)      : 100%|###| 4.98GB / 4.98GB, 90.1MB/s\nhttps://huggingface.co/a/b/tree/main/.\n",
    "kubectl's rollout": 'Waiting for deployment "a" rollout to finish: 0 of 2 updated replicas are available...\n'
    'deployment "a" successfully rolled out\n',
    "Helm": "NAME: a\nLAST DEPLOYED: Tue Feb  3 10:00:01 2026\nNAMESPACE: default\nSTATUS: deployed\nREVISION: 2\n",
    "Terraform": "aws_instance.a: Creating...\nApply complete! Resources: 1 added, 0 changed, 0 destroyed.\n",
    "Ansible": "TASK [install] ***\nchanged: [n1]\nskipping: [n2]\n\nPLAY RECAP ***\n"
    "n1  : ok=2    changed=1    unreachable=0    failed=0    skipped=0    rescued=0    ignored=0   \n"
    "n2  : ok=1    changed=0    unreachable=0    failed=0    skipped=1    rescued=0    ignored=0   \n",
    "Cargo": "   Compiling thiserror v1.0.50\n    Finished `release` profile [optimized] target(s) in 12.31s\n",
    "npm": "npm warn deprecated a@1.0.6: This module is not supported\nadded 312 packages, and audited 313 packages in 9s\n",
    "CTest": "    Start 1: errors\n1/1 Test #1: errors ...........   Passed    0.22 sec\n\n"
    "100% tests passed, 0 tests failed out of 1\n\nTotal Test time (real) =   0.35 sec\n",
    "GoogleTest": "[ RUN      ] A.error\n[       OK ] A.error (1 ms)\n[==========] 1 test from 1 test suite ran. (1 ms total)\n"
    "[  PASSED  ] 1 test.\n",
    "Jest": "PASS src/errors.test.js\n\nTest Suites: 1 passed, 1 total\nTests:       12 passed, 12 total\nSnapshots:   0 total\n"
    "Time:        1.512 s\n",
    "Ninja": "[1/2] Building CXX object a.cc.o\n[2/2] Linking CXX executable a\n",
    "Apptainer": "INFO:    Creating SIF file...\nINFO:    Build complete: a.sif\n",
}
"""The last lines of programs that print a report only at their end."""
KNOWN_LIES = {
    **{lie: told for lie, told in LIES.items() if lie not in ("a loss", "memory")},
    "cut off": lambda log: log.rstrip("\n").rpartition("\n")[0] + "\n",
    "an exception alone": lambda log: "part 1\nOSError: [Errno 28] No space left on device\n" + log,
    "an exception before its last line": lambda log: "RuntimeError: odd\n".join(
        (log.rstrip("\n").rpartition("\n")[0] + "\n", log.rstrip("\n").rpartition("\n")[2] + "\n")
    ),
    "nothing done": lambda log: "0 of 5 done\n" + log,
    "not all done": lambda log: "4 of 5 done\n5 of 6 done\n" + log,
    "the next one begins": lambda log: log + "begins with the next one\n",
    "a training in progress": lambda log: "Epoch 1/4, Loss: 1.9\n" + log,
}


@pytest.mark.parametrize("name", KNOWN)
def test_the_last_lines_of_a_known_program_pass_and_with_one_lie_they_do_not(tmp_path: Path, name: str) -> None:
    found = triaged(tmp_path, KNOWN[name])
    assert found.verdict == "Pass" and found.evidence in log_lines.plain(KNOWN[name].replace("\n", " ; ").encode())
    assert [lie for lie, told in KNOWN_LIES.items() if triaged(tmp_path, told(KNOWN[name])).verdict == "Pass"] == []


def test_an_evaluation_whose_scores_are_all_zero_proves_no_success(tmp_path: Path) -> None:
    table = REPORTS["lm-eval"]
    one = table.replace("  0.6|±  |0.1633", "    0|±  |     0")
    assert triaged(tmp_path, one).verdict == "Pass"
    assert triaged(tmp_path, one.replace("  0.7|±  |   N/A", "    0|±  |   N/A")).verdict == "Unknown"


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("TensorRT-LLM's benchmark", "69430.1", "nan"),
        ("TensorRT-LLM's benchmark", "all 0 tasks", "all 7 tasks"),
        ("vLLM's throughput", "100%|###| 100/100", " 99%|###| 99/100"),
        ("vLLM's latency", "90% percentile latency: 1.2490 seconds\n", ""),
        ("SGLang without a server", "2000", "0"),
        ("MLPerf's load generator", "VALID", "INVALID"),
        ("MLPerf's load generator", "No errors", "3 ERRORS"),
        ("MLPerf's load generator", "satisfied : Yes", "satisfied : NO"),
        ("MLPerf's trainings", "success", "aborted"),
        ("MLPerf's trainings", "0.12", "NaN"),
        ("MLPerf's trainings", '"file": "train.py"', '"status": "aborted"'),
        ("EvalPlus", "0.671", "nan"),
        ("BigCode's evaluation", "0.3109", "NaN"),
        ("MMLU", "Average accuracy 0.510 - anatomy\n", ""),
        ("OpenCompass", "| 71.42 |", "| - |"),
        ("perftest", "391.04", "nan"),
        ("dcgmi", "Pass - All", "Fail - All"),
        ("dcgmi", "Pass - All", "Warn - All"),
        ("dcgmi", "Pass", "Skip"),
        ("fio", "err= 0", "err= 5"),
        ("HPL", "0 tests completed and failed", "1 tests completed and failed"),
        ("HPL", "1 tests completed and passed", "0 tests completed and passed"),
        ("STREAM", "Solution Validates: avg", "Failed Validation on array a[]: avg"),
        ("fastText", "100.0%", " 99.9%"),
        ("fastText", "6.010432", "nan"),
        ("Snakemake", "2 of 2 steps (100%)", "1 of 2 steps (50%)"),
        ("Nextflow", "1 of 1 ✔", "0 of 1, failed: 1 ✘"),
        ("Nextflow", "CPU hours   : 0.1", "CPU hours   : 0.1 (10% failed)"),
        ("rsync", "model/config.json\n", 'rsync: [sender] send_files: "a": Permission denied (13)\n'),
        ("gsutil", "[2/2 files]", "[1/2 files]"),
        ("hf upload", "(2 / 2)", "(1 / 2)"),
        ("Helm", "deployed", "pending-install"),
        ("Ansible", "failed=0", "failed=1"),
        ("Ansible", "unreachable=0", "unreachable=1"),
        ("Ansible", "ignored=0", "ignored=1"),
        ("Ansible", "skipping: [n2]", "skipping: [n3]"),
        ("CTest", "100% tests passed, 0 tests failed", "50% tests passed, 1 tests failed"),
        ("GoogleTest", "1 test.", "0 tests."),
        ("Jest", "12 passed, 12 total", "11 passed, 12 total"),
        ("Ninja", "[2/2] Linking CXX executable a", "FAILED: a"),
        ("Kaldi", "failed for 0", "failed for 3"),
        ("Kaldi", "(code 0)", "(code 1)"),
        ("Optimum's export", "succeeded and the", "succeeded with the warning: it is not within the tolerance. The"),
        ("an import", "Successfully imported", "Importing"),
    ],
)
def test_a_known_report_with_a_fault_does_not_pass(tmp_path: Path, name: str, old: str, new: str) -> None:
    log = {**HEALTHY, **KNOWN}[name]
    assert old in log and triaged(tmp_path, log.replace(old, new)).verdict != "Pass"


@pytest.mark.parametrize("name", [*REPORTS, *KNOWN])
def test_no_odd_number_of_a_report_prevents_an_answer(name: str, tmp_path: Path) -> None:
    explain_with_odd_numbers(tmp_path, {**REPORTS, **KNOWN}[name])


def test_a_long_log_is_not_judged_by_its_last_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert triaged(tmp_path, "answered\n" * 3 + EVALUATION).verdict == "Pass"
    monkeypatch.setattr(finished, "LONGEST", 60)
    assert triaged(tmp_path, EVALUATION).verdict == "Unknown"
