"""The verdict on errors that no signature knows, and on logs that report success; script 62's view of it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest
from triaging import triaged

from mvp_helpers import cli
from mvp_helpers.base.errors import BadInput
from mvp_helpers.diagnosis import diagnose, signatures, views
from mvp_helpers.diagnosis.signature_files import Judgement

PACKAGES = "/opt/venv/lib/python3.12/site-packages/"
STEP = "(TaskRunner pid=1) step:1 - actor/loss:{} - training/global_step:1\n"
BUILT = "(WorkerDict pid=2) Qwen2ForCausalLM contains 494.03M parameters\n"
NEXT_RUN = "2026-01-31 10:00:00,000\tINFO worker.py:1 -- Started a local Ray instance.\n"
DONE = "Training Progress: 100%|###| 1/1 [00:10<00:00, 10.0s/it]\n"


def raised(error: str, *files: str) -> str:
    frames = "".join(f'  File "{file}", line 11, in work\n    x()\n' for file in files)
    return f"Traceback (most recent call last):\n{frames}{error}\n"


CASES = {
    "an option that a program of a package refuses": (
        "Traceback (most recent call last):\n"
        '  File "/v/lib/python3.11/site-packages/openrlhf/cli/train_sft.py", line 322, in <module>\n'
        '    assert args.ds.packing_samples, "x"\n'
        "AssertionError: packing_samples must be enabled when using ring attention\n",
        "Blocked",
        "config",
    ),
    "a loop that unpacks something else": (
        'Traceback (most recent call last):\n  File "/home/a/flow/train.py", line 103, in <module>\n'
        "    for (x,) in enumerate(loader):\nValueError: too many values to unpack (expected 1)\n",
        "Fail",
        "user code",
    ),
    "a file that was to be removed": (
        'Traceback (most recent call last):\n  File "/home/a/flow/pack.py", line 103, in <module>\n'
        "    os.remove(folder + '.zip')\nFileNotFoundError: [Errno 2] No such file or directory: '/data/shard_0.zip'\n",
        "Fail",
        "user code",
    ),
    "a scan that is not there": (
        raised("FileNotFoundError: [Errno 2] No such file or directory: '/data/s1/bold.nii.gz'", "/q/w.py"),
        "Blocked",
        "data",
    ),
    "a file of options that is not there": (
        raised("FileNotFoundError: [Errno 2] No such file or directory: 'conf/base.yaml'", "/q/w.py"),
        "Blocked",
        "config",
    ),
    "an image that exists": (
        "FATAL:   While checking build target: build target 'a.sif' already exists. Use --force if you want to overwrite it\n",
        "Blocked",
        "container",
    ),
    "a package without a wheel for this platform": (
        "Resolved 64 packages in 4ms\nerror: Distribution `torch==2.5.1 @ registry+https://example.org/whl` can't be installed"
        " because it doesn't have a source distribution or wheel for the current platform\n",
        "Blocked",
        "dependency",
    ),
    "an exception of a package's own": (
        'Traceback (most recent call last):\n  File "C:/Sumo/tools/traci/connection.py", line 135, in _sendExact\n'
        '    raise FatalTraCIError("the simulation is closed")\ntraci.exceptions.FatalTraCIError: the simulation is closed\n',
        "Fail",
        "user code",
    ),
    "a server that a package does not reach": (
        raised("odd.client.OddError: cannot reach it: refused", "/u/s.py"),
        "Blocked",
        "network",
    ),
    "what a package is denied": (raised("odd.client.OddError: access denied to bucket a", "/u/s.py"), "Blocked", "config"),
    "an exception of Ray's own": (raised("ray.odd.OddError: it is odd", "/u/steps.py"), "Blocked", "Ray"),
    "an exception of what gives a cluster": (raised("sky.odd.OddError: it is odd", "/u/steps.py"), "Blocked", "cluster"),
    "an exception of Docker's client": (raised("docker.odd.OddError: it is odd", "/u/steps.py"), "Blocked", "container"),
    "a test whose file is named differently": (
        'Traceback (most recent call last):\n  File "/work/own/einsum_test.py", line 162, in test_einsum\n    check(a, b)\n'
        '  File "/opt/lib/python3.11/site-packages/torch/testing/_asserts.py", line 971, in assert_close\n'
        "    raise error_meta.to_error()\nAssertionError: Tensor-likes are not close!\n",
        "Fail",
        "test",
    ),
    "an exception in a graph of TensorFlow": (
        'Traceback (most recent call last):\n  File "/work/own/dataset.py", line 211, in make\n    ).traj_map(restructure)\n'
        '  File "/opt/lib/python3.11/site-packages/tensorflow/python/autograph/impl/api.py", line 693, in wrapper\n'
        "    raise e.ag_error_metadata.to_exception(e)\nValueError: in user code:\n\n"
        '    File "/work/own/dataset.py", line 191, in restructure  *\n        raise ValueError(text)\n\n'
        "    ValueError: Length of the mask (14) does not match the action dimension (7).\n",
        "Blocked",
        "data",
    ),
    "the code of a harness": (
        'Traceback (most recent call last):\n  File "/work/lm-evaluation-harness/lm_eval/api/model.py", line 133, in create\n'
        "    return cls(**args)\nTypeError: an odd value\n",
        "Fail",
        "harness",
    ),
    "an example of the data that a program names in a line alone": (
        "2026-01-01 10:00:00,100 - ERROR - The 'chosen' field in example at index 609 is not a string.\n",
        "Blocked",
        "data",
    ),
    "a folder of runs in which there is none": (
        'Traceback (most recent call last):\n  File "/work/own/cfg.py", line 204, in get_checkpoint_path\n    raise x(text)\n'
        "ValueError: No runs present in the directory: 'logs' match: '.'.\n",
        "Blocked",
        "checkpoint",
    ),
    "a mistake of the code that a program names in a line alone": (
        "Loading\n2026-01-01 10:00:00,100 - ERROR - unsupported operand type(s) for //: 'str' and 'int'\n",
        "Fail",
        "user code",
    ),
    "an engine that was not asked for": (
        raised("AttributeError: 'PeftModel' object has no attribute 'vllm_engine'", PACKAGES + "peft/peft_model.py"),
        "Blocked",
        "config",
    ),
    "a collator of another kind of data": (
        STEP.format(0.1)
        + raised(
            "ValueError: You should supply an encoding or a list of encodings that includes input_ids",
            PACKAGES + "transformers/tokenization_utils_base.py",
        ),
        "Fail",
        "data",
    ),
    "an error before the losses below headings of epochs, which outlive it": (
        raised("ModuleNotFoundError: No module named 'apex'", "/u/train.py")
        + "".join(f"Epoch {n}/9\nTrain Loss: 0.{n}\n" for n in (1, 2, 3)),
        "Unknown",
        "dependency",
    ),
    "shapes in a graph of TensorFlow": (
        raised(
            "tensorflow.python.framework.errors_impl.InvalidArgumentError: Incompatible shapes: [64,2] vs. [64]",
            PACKAGES + "tensorflow_core/python/client/session.py",
            "/u/train.py",
        ),
        "Fail",
        "training",
    ),
    "a random generator's state": (raised("RuntimeError: Invalid mt19937 state", "/u/resume.py"), "Fail", "checkpoint"),
    "arguments of one's own call": (
        raised("TypeError: full() received an invalid combination of arguments - got (tuple, NoneType)", "/u/draw.py"),
        "Fail",
        "user code",
    ),
    "a check of one's own": (raised("ValueError: the first key changed across branches", "/u/capture.py"), "Fail", "user code"),
    "a check of one's own, of an argument": (
        raised("ValueError: the first key must be a branch", "/u/capture.py"),
        "Blocked",
        "config",
    ),
    "a check of a package": (
        raised("ValueError: the first key changed across branches", PACKAGES + "tool/capture.py"),
        "Blocked",
        "config",
    ),
    "a result of one's own that is None": (
        raised("AttributeError: 'NoneType' object has no attribute 'status'", "/u/evaluate.py"),
        "Fail",
        "user code",
    ),
    "a tracker without its configuration": (
        BUILT + raised("defs.MissingConfigError: The comet client is not logged in here!", PACKAGES + "comet_ml/x.py", "/u/t.py"),
        "Blocked",
        "tracker",
    ),
    "samples of one's own that need a padding token": (
        raised("ValueError: Asking to pad but the tokenizer does not have a padding token.", PACKAGES + "x.py", "/u/data.py"),
        "Fail",
        "user code",
    ),
    "an ERROR line about a name": (
        "2026-01-31 10:00:00,709 - root - ERROR - Error running Agent: name 'nseqs' is not defined\n",
        "Fail",
        "user code",
    ),
    "a variable that a program names in a line alone": (
        "ERROR: local variable 'total' referenced before assignment\n",
        "Fail",
        "user code",
    ),
    "data that end in a step": (STEP.format(0.5) + raised("StopIteration", "/u/train.py"), "Fail", "user code"),
    "an engine's own error of programming": (
        raised("AttributeError: 'NoneType' object has no attribute 'cpu'", "/w/sglang/python/sglang/srt/managers/infer_batch.py"),
        "Fail",
        "rollout engine",
    ),
    "a question to nobody": (
        raised("EOFError: EOF when reading a line", "/u/train.py"),
        "Blocked",
        "launcher",
    ),
    "a file that is no gzip": (
        raised("gzip.BadGzipFile: Not a gzipped file (b'<?')", "/u/read.py"),
        "Blocked",
        "data",
    ),
    "an error of a library that fits tables": (
        raised(
            "xgboost.core.XGBoostError: [10:00:00] /src/objective.cu:12: weights are not finite",
            PACKAGES + "xgboost/core.py",
            "/u/fit.py",
        ),
        "Fail",
        "user code",
    ),
    "names that a table lacks": (
        raised("KeyError: \"['A-2', 'A-5'] not in index\"", PACKAGES + "pandas/core/indexing.py", "/u/prepare.py"),
        "Blocked",
        "data",
    ),
    "an attribute that a model of one's own lacks, below DDP": (
        STEP.format(0.5)
        + raised(
            "AttributeError: 'Mixture' object has no attribute 'gate'",
            PACKAGES + "torch/nn/parallel/distributed.py",
            "/u/mixture.py",
        ),
        "Fail",
        "user code",
    ),
    "a driver that is too old for a graph": (
        raised("jaxlib.XlaRuntimeError: UNIMPLEMENTED: Graphs is not implemented for CUDA below version 12.3.", "/u/a.py"),
        "Blocked",
        "host",
    ),
    "a trainer that was written for another vLLM": (
        raised("AttributeError: 'LLMEngine' object has no attribute 'model_executor'", PACKAGES + "vllm/entrypoints/llm.py"),
        "Blocked",
        "rollout engine",
    ),
    "torch's own distributed test": (
        raised("RuntimeError: Process 1 exited with error code 10", "/opt/torch/testing/_internal/common_distributed.py"),
        "Fail",
        "test",
    ),
    "a sensor that waited in vain": (
        raised("airflow.exceptions.AirflowSensorTimeout: Sensor has timed out; run duration of 601 seconds", "/u/dag.py"),
        "Blocked",
        "data",
    ),
    "a folder that is no model": (
        raised("RuntimeError: No config file found - is the name correct?", "/u/evaluate.py"),
        "Blocked",
        "model path",
    ),
    "a type that this GPU lacks": (
        raised(
            "triton.compiler.errors.CompilationError: at 1:0:\ndef kernel(\n^\n"
            'ValueError("type fp8e4nv not supported in this architecture")',
            PACKAGES + "sglang/srt/layers/decode.py",
        ),
        "Blocked",
        "host",
    ),
    "an engine's kernel that does not compile": (
        raised(
            "triton.compiler.errors.CompilationError: at 3:4:\n    if a:\n    ^\nAssertionError('x is fp16, then bf16')",
            PACKAGES + "sglang/srt/layers/conv.py",
        ),
        "Blocked",
        "rollout engine",
    ),
    "a format that no value has": (
        'Traceback (most recent call last):\n  File "/u/report.py", line 9, in main\n    print(f"{checkpoint:{odd}}")\n'
        "ValueError: Invalid format specifier\n",
        "Fail",
        "user code",
    ),
    "a model's folder without a model": (
        'Traceback (most recent call last):\n  File "/u/serve.py", line 9, in main\n    config["architectures"]\n'
        "KeyError: 'architectures'\n",
        "Blocked",
        "model path",
    ),
    "a file that is too short": (
        'Traceback (most recent call last):\n  File "/u/index.py", line 9, in main\n    struct.unpack("<Q", read(8))\n'
        "struct.error: unpack requires a buffer of 8 bytes\n",
        "Blocked",
        "data",
    ),
    "a database without an extension": (
        'Traceback (most recent call last):\n  File "/u/index.py", line 9, in main\n    cursor.execute(query)\n'
        'psycopg2.errors.UndefinedObject: type "vector" does not exist\n',
        "Blocked",
        "dependency",
    ),
    "a table with other columns than a script gives": (
        'Traceback (most recent call last):\n  File "/u/store.py", line 9, in <module>\n    cursor.executemany(query, rows)\n'
        "sqlite3.OperationalError: table answers has 5 columns but 3 values were supplied\n",
        "Fail",
        "user code",
    ),
    "a test that unpacks too many values": (
        "==== FAILURES ====\n____ test_loop ____\n    def test_loop():\n>       fit(data)\n\ntests/test_loop.py:7:\n\n"
        ">       for (batch,) in loader:\nE       ValueError: too many values to unpack (expected 1)\n\nm/gc.py:5: ValueError\n"
        "==== 1 failed, 6 passed in 2.98s ====\n",
        "Fail",
        "test",
    ),
    "a test without its file": (
        '==== FAILURES ====\n____ test_read ____\n>       read("t.csv")\ntests/test_read.py:7:\n'
        "E       FileNotFoundError: [Errno 2] No such file or directory: 't.csv'\n\ntests/test_read.py:7: FileNotFoundError\n"
        "==== 1 failed in 2.98s ====\n",
        "Fail",
        "test",
    ),
    "a test of unittest": (
        "======\nERROR: test_loop (tests.Loop)\n------\nTraceback (most recent call last):\n"
        '  File "/u/tests.py", line 3, in test_loop\n    fit()\nValueError: x\n\n'
        "------\nRan 2 tests in 0.001s\n\nFAILED (errors=1)\n",
        "Fail",
        "test",
    ),
    "a test without a package": (
        "==== FAILURES ====\n____ test_loop ____\n    def test_loop():\n>       import apex\n"
        "E       ModuleNotFoundError: No module named 'apex'\n\ntests/test_loop.py:7: ModuleNotFoundError\n"
        "==== 1 failed, 6 passed in 2.98s ====\n",
        "Blocked",
        "dependency",
    ),
    "a file of data that is not there": (
        'Traceback (most recent call last):\n  File "/u/train.py", line 9, in <module>\n    read("seqs.pkl")\n'
        "FileNotFoundError: [Errno 2] No such file or directory: 'seqs.pkl'\n",
        "Blocked",
        "data",
    ),
    "a tokenizer's file that is not there": (
        'Traceback (most recent call last):\n  File "/u/train.py", line 9, in <module>\n    read("m/vocab.txt")\n'
        "FileNotFoundError: [Errno 2] No such file or directory: 'm/vocab.txt'\n",
        "Blocked",
        "model path",
    ),
    "a file of sound that is not there": (
        'Traceback (most recent call last):\n  File "/u/train.py", line 9, in <module>\n    read("1.mp3")\n'
        "soundfile.LibsndfileError: Error : unknown error in flac decoder.\n",
        "Blocked",
        "data",
    ),
    "a script that does not parse": (
        '0:   File "/u/bench.py", line 7\n0:     two words (4)\n0: SyntaxError: invalid syntax\n',
        "Fail",
        "user code",
    ),
    "an attribute that a trainer's own class lacks": (
        "AttributeError: 'PolicyTrainActor' object has no attribute 'mesh'\n",
        "Fail",
        "trainer",
    ),
    "a kernel that the engine's compiler refuses while it generates": (
        f'Traceback (most recent call last):\n  File "{PACKAGES}vllm/v1/worker.py", line 7, in execute_model\n    x()\n'
        "torch._inductor.exc.InductorError: RuntimeError: PassManager::run failed\n",
        "Blocked",
        "dependency",
    ),
    "a model that cannot checkpoint its gradients": (
        raised("ValueError: AlbertModel does not support gradient checkpointing.", "/u/train.py"),
        "Blocked",
        "config",
    ),
    "a run to go on with that is not there": (
        raised("ValueError: No valid checkpoint found in output directory (out)", PACKAGES + "transformers/trainer.py"),
        "Blocked",
        "config",
    ),
    "a flag of a module that is imported twice": (
        "absl.flags._exceptions.DuplicateFlagError: 'rows' is defined twice\n",
        "Blocked",
        "config",
    ),
    "a name that a cell of a notebook should have defined": (
        "NameError                 Traceback (most recent call last)\nCell In[5], line 4\n----> 4 model(settings)\n\n"
        "NameError: name 'settings' is not defined\n",
        "Blocked",
        "user code",
    ),
    "a text without tokens": (
        raised("IndexError: list index out of range", PACKAGES + "transformers/tokenization_utils_base.py"),
        "Blocked",
        "data",
    ),
    "a value that the program asks for": (
        raised("RuntimeError: Set run_name of the second target.", "/u/bench.py"),
        "Blocked",
        "config",
    ),
    "a service that refuses to talk": (
        raised("ConnectionRefusedError: [WinError 17] keine Verbindung", "/u/bench.py"),
        "Blocked",
        "network",
    ),
    "settings in YAML": (
        "yaml.constructor.ConstructorError: could not determine a constructor for the tag '!join'\n",
        "Blocked",
        "config",
    ),
    "an image that cannot be read": (
        "PIL.Image.DecompressionBombError: Image size (400000000 pixels) exceeds limit of 178956970 pixels\n",
        "Blocked",
        "data",
    ),
    "a chat template that refuses the messages": (
        "jinja2.exceptions.UndefinedError: 'tools' is undefined\n",
        "Blocked",
        "model path",
    ),
    "a hub that is not to be asked": (
        "huggingface_hub.errors.BadRequestError: the answer of https://hub.invalid/x is not valid\n",
        "Blocked",
        "model hub",
    ),
    "a binding of another version": (
        "TypeError: __init__(): incompatible constructor arguments. The following argument types are supported:\n",
        "Blocked",
        "dependency",
    ),
    "code that cannot be compiled": ("torch._dynamo.exc.FailOnRecompileLimitHit: recompile_limit reached\n", "Fail", "training"),
    "a column that is absent": ("KeyError: 'chosen'\n", "Blocked", "data"),
    "a launcher's variable that is absent": ("KeyError: 'LOCAL_RANK'\n", "Blocked", "launcher"),
    "a wrong use of a string": ("AttributeError: 'str' object has no attribute 'to'\n", "Fail", "user code"),
    "a value that is refused": ("ValueError: seven is odd\n", "Blocked", "config"),
    "a model's class that breaks while it is built": (
        BUILT + raised("ValueError: odd", "/q/w.py", PACKAGES + "transformers/models/qwen2/modeling_qwen2.py"),
        "Fail",
        "model path",
    ),
    "a device that a program does not support": ("RuntimeError: half numbers are not supported here\n", "Blocked", "config"),
    "a service that took too long": (
        raised(
            "pystac_client.exceptions.APIError: The request exceeded the maximum allowed time, please try again.", "/q/own/a.py"
        ),
        "Blocked",
        "network",
    ),
    "an attribute that a data set's own code asks for": (
        raised("AttributeError: FastTokenizer has no attribute r1c5", "/q/own/data/datasets.py", PACKAGES + "x/base.py"),
        "Fail",
        "data",
    ),
    "a package that a message asks for": (
        raised(
            "ValueError: a device_map requires `accelerate`. You can install it with `pip install accelerate`",
            PACKAGES + "x/modeling_x.py",
        ),
        "Blocked",
        "dependency",
    ),
    "a GPU that is too old": ("AssertionError: block scaling requires Hopper and CUDA >= 12.9\n", "Blocked", "dependency"),
    "metrics beside recorded ones": ("AssertionError: The following metrics failed: lm loss, num-zeros\n", "Fail", "metric"),
    "an argument that the model's class does not take": (
        "TypeError: MyModelForCausalLM.__init__() got an unexpected keyword argument 'use_cache'\n",
        "Fail",
        "user code",
    ),
    "a trainer's own class for its configuration": (
        "my.exceptions.MyConfigurationError: set device to cuda\n",
        "Blocked",
        "config",
    ),
    "an asserted relation of two settings": (
        "AssertionError: assert self.warmup_steps < self.decay_steps\n",
        "Blocked",
        "config",
    ),
    "a variable of the environment that contradicts an option": (
        "AssertionError: NVTE_FLASH_ATTN set to 0, but expected 1 for this backend\n",
        "Blocked",
        "launcher",
    ),
    "a tokenizer's file, asserted to be there": (
        "AssertionError: Tokenizer file does not exist at /models/a\n",
        "Blocked",
        "model path",
    ),
    "data, asserted to be there": ("AssertionError: training data file train.jsonl not found\n", "Blocked", "data"),
    "a model's configuration of another version": (
        "AttributeError: 'MyModelConfig' object has no attribute 'softcap'\n",
        "Fail",
        "dependency",
    ),
    "a name that nothing sets, where data is loaded": (
        raised("NameError: name 'prompts' is not defined", "/u/scripts/data_processing.py"),
        "Fail",
        "user code",
    ),
    "a name that a branch did not set, in a line that reports to a tracker": (
        'Traceback (most recent call last):\n  File "/u/toy.py", line 9, in run\n    wandb.log({"lr": opt.lr})\n'
        "UnboundLocalError: local variable 'opt' referenced before assignment\n",
        "Fail",
        "trainer",
    ),
    "weights that are not at their path": (
        "FileNotFoundError: [Errno 2] No such file or directory: 'out/best_model.pth'\n",
        "Blocked",
        "model path",
    ),
    "a script without its input": ("Error: input file not found: ./answers.json\n", "Blocked", "data"),
    "an option that a library's class no longer takes": (
        "TypeError: SFTTrainer.__init__() got an unexpected keyword argument 'tokenizer'\n",
        "Blocked",
        "dependency",
    ),
    "a function of the checkout that is called wrongly": (
        raised("TypeError: fetch_image() got an unexpected keyword argument 'where'", "/u/data/convert.py"),
        "Fail",
        "user code",
    ),
    "a hub that may not be asked": (
        "ConnectionError: Couldn't reach 'texts' on the Hub (LocalTimeout)\n",
        "Blocked",
        "model hub",
    ),
    "a forward pass of a model's class": (
        STEP.format(1) + raised("RuntimeError: max(): Expected reduction dim", PACKAGES + "transformers/models/q/attention.py"),
        "Fail",
        "training",
    ),
    "sizes that do not divide, without their frames": ("AssertionError: 6 is not divisible by 4\n", "Fail", "parallel state"),
    "a setting that is absent, without its frames": (
        "AttributeError: 'NoneType' object has no attribute 'lr'\n",
        "Blocked",
        "config",
    ),
    "a group that exists, without its frames": (
        "ValueError: trying to initialize the default process group twice!\n",
        "Fail",
        "parallel state",
    ),
    "a sentence that ends with an exception": (
        "[rewards] reward_fn failed on row 4: KeyError('task')\n",
        "Fail",
        "reward model",
    ),
    "a sentence about an attempt": ("[client] request failed: ConnectionError('x'), trying again\n", "Unknown", ""),
    "an option that this version's configuration does not have": (
        raised("TypeError: EngineConfig.__init__() got an unexpected keyword argument 'max_rows'", "/q/verl/workers/w.py"),
        "Blocked",
        "config",
    ),
    "a model's sizes that another model does not have": (
        raised("AttributeError: 'MoeModelArgs' object has no attribute 'n_kv_heads'", "/q/torchtitan/model.py"),
        "Fail",
        "provider",
    ),
    "a world smaller than a parallel size": (
        raised("RuntimeError: world_size (2) is less than context_parallel_size 4", "/q/w.py"),
        "Blocked",
        "cluster size",
    ),
    "a plain tensor where a distributed one was expected": (
        STEP.format(1) + raised("AttributeError: 'Tensor' object has no attribute 'device_mesh'", "/q/verl/workers/actor/a.py"),
        "Fail",
        "parallel state",
    ),
    "a driver that is too old": (
        raised("RuntimeError: The NVIDIA driver on your system is too old (found version 11040).", "/q/w.py"),
        "Blocked",
        "host",
    ),
    "a compiler that PyTorch does not find": ("torch._inductor.exc.TritonMissing: Cannot find one\n", "Blocked", "dependency"),
    "a library that several ways to import it lack": (
        "ImportError:\n[sgl_kernel] CRITICAL: Could not load any library!\n"
        "- ImportError: libnvrtc.so.12: cannot open shared object file: No such file or directory\n"
        "- ModuleNotFoundError: No module named 'common_ops'\n",
        "Blocked",
        "dependency",
    ),
    "threads that a host does not give": ("what(): thread: Resource temporarily unavailable [system:11]\n", "Blocked", "host"),
    "an error that a script ends with": ("reading the list\nFATAL: balance 3 is below the floor 7\n", "Blocked", "launcher"),
    "an attribute that a script expects of a model": (
        'Traceback (most recent call last):\n  File "/w/steer.py", line 9, in sweep\n    layer = model.model.layers[3]\n'
        f'  File "{PACKAGES}torch/nn/modules/module.py", line 778, in __getattr__\n    raise AttributeError(\n'
        "AttributeError: 'QwenForCausalLM' object has no attribute 'layers'\n",
        "Fail",
        "user code",
    ),
    "an attribute that a package expects of a model": (
        f'Traceback (most recent call last):\n  File "{PACKAGES}adapters/wrap.py", line 9, in wrap\n    layer = model.layers[3]\n'
        f'  File "{PACKAGES}torch/nn/modules/module.py", line 778, in __getattr__\n    raise AttributeError(\n'
        "AttributeError: 'QwenForCausalLM' object has no attribute 'layers'\n",
        "Blocked",
        "dependency",
    ),
    "an argument that a trainer's own loss does not take": (
        f'Traceback (most recent call last):\n  File "{PACKAGES}transformers/other.py", line 9, in one\n    x()\n'
        "TypeError: OwnTrainer.compute_loss() got an unexpected keyword argument 'num_items'\n",
        "Fail",
        "user code",
    ),
    "an argument that a trainer of one's own needs": (
        'Traceback (most recent call last):\n  File "/w/start.py", line 9, in main\n    x()\n'
        "TypeError: OwnTrainer.__init__() missing 1 required positional argument: 'folder'\n",
        "Fail",
        "user code",
    ),
    "a function of one's own that needs more": (
        'Traceback (most recent call last):\n  File "/w/start.py", line 9, in main\n    means.update(features)\n'
        "TypeError: Means.update() missing 2 required positional arguments: 'empty' and 'epoch'\n",
        "Fail",
        "user code",
    ),
    "two settings of a known trainer that do not fit": (
        raised(
            "AssertionError: train_batch_size must equal parameter_sync_step * ppo_mini_batch_size in separate async training",
            "/opt/venv/lib/python3.12/site-packages/verl/trainer/ppo/v1/trainer_separate_async.py",
        ),
        "Blocked",
        "config",
    ),
    "an assertion about a setting in the code under test": (
        raised("AssertionError: hidden_size must be a multiple of num_heads", "/src/Megatron-Bridge/src/megatron/bridge/x.py"),
        "Fail",
        "provider",
    ),
    "an assertion of Megatron about what a provider gave it": (
        raised("AssertionError: hidden_size must be a multiple of num_heads", "/opt/megatron-lm/megatron/training/x.py"),
        "Fail",
        "trainer",
    ),
    "an assertion of a known trainer about its own tensors": (
        raised("AssertionError: input_ids must be a nested tensor", "/opt/venv/lib/python3/site-packages/verl/utils/padding.py"),
        "Fail",
        "trainer",
    ),
    "a folder of an earlier run": (
        'Traceback (most recent call last):\n  File "/w/start.py", line 9, in initialize_checkpoint_dir\n    x()\n'
        "FileExistsError: Checkpoint directory /c/one already exists. Use --overwrite or --resume.\n",
        "Blocked",
        "checkpoint",
    ),
    "a folder that is there": (
        'Traceback (most recent call last):\n  File "/w/start.py", line 9, in make_folder\n    x()\n'
        "FileExistsError: Experiment directory already exists: /c/one\n",
        "Blocked",
        "config",
    ),
    "a folder where a file of settings is to be": (
        'Traceback (most recent call last):\n  File "/w/settings.py", line 9, in read\n    with open(name) as file:\n'
        "IsADirectoryError: [Errno 21] Is a directory: '/w/settings'\n",
        "Blocked",
        "config",
    ),
    "a character that a console cannot show": (
        'Traceback (most recent call last):\n  File "/w/show.py", line 9, in show\n    print(mark)\n'
        "UnicodeEncodeError: 'cp1252' codec can't encode character '\\u2713' in position 0\n",
        "Fail",
        "user code",
    ),
    "an attribute that a module of an older torch lacks": (
        f'Traceback (most recent call last):\n  File "/w/two_heads.py", line 9, in __init__\n    self.size = self.base.size\n'
        f'  File "{PACKAGES}torch/nn/modules/module.py", line 778, in __getattr__\n    raise ModuleAttributeError(\n'
        "torch.nn.modules.module.ModuleAttributeError: 'TwoHeads' object has no attribute 'base'\n",
        "Fail",
        "user code",
    ),
    "a group for the weights that is not made": (
        f'Traceback (most recent call last):\n  File "/w/recipe/trainer.py", line 9, in _create_weight_sync_group\n    make()\n'
        f'  File "{PACKAGES}ray/util/collective/collective.py", line 16, in create\n    raise odd\nRuntimeError: odd\n',
        "Fail",
        "refit",
    ),
    "ranks that waited for another": (
        "what(): Watchdog caught collective operation timeout: WorkNCCL(SeqNum=90, OpType=BROADCAST) ran for 1800 ms\n",
        "Blocked",
        "network",
    ),
    "an exception that shares a line with the code that raised it": (
        f'Traceback (most recent call last):\n  File "{PACKAGES}ray/_private/worker.py", line 9, in get_objects\n'
        "    raise value"
        + " "
        * 30
        + "ray.exceptions.ActorDiedError: The actor died because of an error raised in its creation task,"
        " ray::Policy.__init__() (pid=2)\n",
        "Blocked",
        "Ray",
    ),
    "a traceback in rich's box whose header is missing and whose path is wrapped": (
        "│ ❱ 70 │   │   │   wrapped = _wrap(    │\n│                                        │\n"
        "│ /opt/q/lib/python3.12/site-packages/torch/distributed │\n│ /fsdp/wrap.py:70 in _wrap           │\n"
        "│   69 │   │   for child in module.children():    │\n",
        "Fail",
        "parallel state",
    ),
    "an excerpt that begins within a process's name": (
        "unner pid=4) Unhandled error (suppress with 'RAY_X=1'): ray::WorkerDict.actor_load_checkpoint() (pid=5)\n"
        '(TaskRunner pid=4)   File "/v/verl/single_controller/base.py", line 9, in func\n',
        "Fail",
        "checkpoint",
    ),
    "an environment that has a trainer's name": (
        'Traceback (most recent call last):\n  File "/envs/verl/lib/python3.12/runpy.py", line 9, in _run_code\n    exec(code)\n',
        "Unknown",
        "unknown",
    ),
    "a notebook that shows links": (
        "RuntimeError                              Traceback (most recent call last)\nCell In[4], [line 2](nb:?line=2)\n"
        "---> [2](nb:?line=2) trainer.train()\n\nFile /q/transformers/trainer.py:9, in Trainer.train(self)\n   [8](nb:8) x",
        "Fail",
        "trainer",
    ),
    "a reward function, in whatever loop calls it": (
        raised("KeyError: 4", "/q/metric.py").replace("in work", "in compute_score"),
        "Fail",
        "reward model",
    ),
    "memory of the host at the start": (raised("MemoryError: too much", "/v/verl/w.py"), "Blocked", "memory"),
    "memory of the host in training": (STEP.format(1) + raised("MemoryError: too much", "/v/verl/w.py"), "Blocked", "memory"),
    "a placement of processes that Ray does not answer": (
        'Traceback (most recent call last):\n  File "/opt/nemo-rl/nemo_rl/distributed/virtual_cluster.py", line 330, in '
        f'_create_placement_groups_internal\n    x()\n  File "{PACKAGES}ray/_private/worker.py", line 9, in get_objects\n    r',
        "Blocked",
        "cluster size",
    ),
    "a launcher without an address": (
        "RuntimeError: MASTER_ADDR is empty on this host\n",
        "Blocked",
        "launcher",
    ),
    "a folder that is missing": (raised("FileNotFoundError: Directory does not exist: /q", "/u/t.py"), "Blocked", "data"),
    "a row without a column that a collator reads": (
        STEP.format(1) + raised("KeyError: 'prompt'", PACKAGES + "trl/trainer/utils.py"),
        "Fail",
        "data",
    ),
    "a tracker that does not start": (
        raised("TimeoutError: no service", PACKAGES + "wandb/sdk/service.py"),
        "Blocked",
        "tracker",
    ),
    "a communication that fails in training, without its frames": (
        STEP.format(1) + "RuntimeError: NCCL communicator was aborted on rank 3\n",
        "Fail",
        "network",
    ),
    "a kernel library that refuses its device": (
        "ValueError: this build needs compute capability 8.0 or newer\n",
        "Blocked",
        "dependency",
    ),
    "an engine's limit, without its frames": ("ValueError: max_num_seqs (7) is too small\n", "Blocked", "rollout engine"),
    "an engine's option, without its frames": (
        "RuntimeError: no slot is left. Please set a smaller number for `--max-running-requests`.\n",
        "Blocked",
        "rollout engine",
    ),
    "an option that only sounds like an engine's": (
        "RuntimeError: no slot is left. Please set a smaller number of running requests.\n",
        "Fail",
        "user code",
    ),
    "a reward function, without its frames": ("RuntimeError: compute_score returned nothing\n", "Fail", "reward model"),
    "a reward function that cannot be loaded": ("ValueError: no reward function is named 'own'\n", "Blocked", "reward model"),
    "a loader of data of another version": (
        raised("AttributeError: 'OwnDataLoader' object has no attribute 'sampler'", "/q/train.py"),
        "Blocked",
        "dependency",
    ),
    "rows that a loader of data cannot read": ("ValueError: the dataloader got no rows\n", "Blocked", "data"),
    "a configuration without a section": (
        raised("AttributeError: 'ConfigDict' object has no attribute 'actor'", "/q/compat.py"),
        "Blocked",
        "config",
    ),
    "data that are built in a trainer's own file": (
        'Traceback (most recent call last):\n  File "/m/megatron/training.py", line 8, in build_train_valid_data_iterators\n'
        "    assert samples is None\nAssertionError: samples\n",
        "Blocked",
        "data",
    ),
    "a wrapper of the launcher around a trainer": (
        'Traceback (most recent call last):\n  File "/t/torchtitan/trainer.py", line 9, in train\n    self.work()\n'
        f'  File "{PACKAGES}torch/distributed/elastic/multiprocessing/errors/__init__.py", line 3, in wrapper\n    f()\n'
        "ValueError: odd\n",
        "Fail",
        "trainer",
    ),
    "a save that the excerpt ends in, as a statement of several lines": (
        'rank3]:Traceback (most recent call last):\n[rank3]:  File "/t/torchtitan/trainer.py", line 9, in train\n'
        "[rank3]:    self.checkpointer.save(\n[rank3]:    ~~~~^\n[rank3]:        self.step, last=True\n[rank3]:        ^^^^^\n",
        "Fail",
        "checkpoint",
    ),
    "an assertion without words, in an indented text": (
        '   Traceback (most recent call last):\n     File "/opt/vllm/v1/core.py", line 9, in run\n       assert heads % n == 0\n'
        "   AssertionError\n",
        "Blocked",
        "rollout engine",
    ),
    "lines that a listing numbers": (
        '12   File "/q/train.py", line 9, in save_checkpoint\n13     torch.save(state, path)\n'
        "14 RuntimeError: Parent directory /q/tmp-5 is gone\n",
        "Fail",
        "checkpoint",
    ),
    "an operation of a trainer that only a library's own code refuses": (
        STEP.format(1)
        + raised("NotImplementedError: use keys()", "/v/verl/workers/actor/dp.py", PACKAGES + "tensordict/tensordict.py"),
        "Fail",
        "training",
    ),
    "a trainer that generates and scores": (
        'File ".../trl/trainer/grpo_trainer.py", line 9, in _generate_and_score_completions\n    x()\nRuntimeError: odd\n',
        "Fail",
        "trainer",
    ),
    "a trainer that is made": (
        'File ".../trl/trainer/grpo_trainer.py", line 9, in __init__\n    x()\nRuntimeError: odd\n',
        "Fail",
        "trainer",
    ),
    "a shape that does not fit, without its frames": (
        "RuntimeError: mat1 and mat2 must have the same dtype, but got Float and BFloat16\n",
        "Fail",
        "training",
    ),
    "a mesh that does not fit, without its frames": (
        "RuntimeError: the device mesh has 2 dimensions\n",
        "Fail",
        "parallel state",
    ),
    "an option that the parser refuses": ("train.py: error: argument --lr: invalid float value: 'x'\n", "Blocked", "config"),
    "a column that is absent, without its frames": ("ValueError: columns task and prompt have no rows\n", "Blocked", "data"),
    "a tokenizer's file, without its frames": ("ValueError: safetensors index names an absent shard\n", "Blocked", "model path"),
    "a cluster that is gone, without its frames": ("RuntimeError: the Ray cluster has been shut down\n", "Blocked", "Ray"),
    "sizes that do not divide the processes": (
        "AssertionError: world size (6) is not divisible by tensor parallel size (4)\n",
        "Blocked",
        "config",
    ),
    "a model that could not be read from a checkpoint": (
        'Traceback (most recent call last):\n  File "/opt/nemo-rl/nemo_rl/models/policy/utils.py", line 9, in load_checkpoint\n'
        "    x()\nRuntimeError: Failed to load model: 3 of 9 tensors\n",
        "Fail",
        "checkpoint",
    ),
    "a library that could not be loaded": ("OSError: failed to load library libfoo.so.1\n", "Blocked", "dependency"),
    "an engine that does not start": (
        raised("RuntimeError: Engine core failed", PACKAGES + "vllm/v1/engine/utils.py"),
        "Blocked",
        "rollout engine",
    ),
    "an engine that breaks in training": (
        STEP.format(1) + raised("RuntimeError: bad", PACKAGES + "vllm/v1/engine/core.py"),
        "Fail",
        "rollout engine",
    ),
    "a provider without an attribute": (
        raised(
            "AttributeError: 'P' object has no attribute 'x'",
            "/v/verl/workers/engine.py",
            "/b/src/megatron/bridge/models/q_provider.py",
        ),
        "Fail",
        "provider",
    ),
    "a weight that no mapping knows": (
        raised("KeyError: 'layers.0.q'", "/b/src/megatron/bridge/models/bridge.py"),
        "Fail",
        "provider",
    ),
    "a LoRA target that is not there": (
        BUILT + raised("ValueError: no target", "/b/src/megatron/bridge/peft/lora.py"),
        "Fail",
        "PEFT",
    ),
    "a checkpoint that does not fit": (
        STEP.format(1) + raised("CheckpointingException: sharding", "/m/megatron/core/dist_checkpointing/validation.py"),
        "Fail",
        "checkpoint",
    ),
    "a module of another version": (
        raised("AttributeError: module 'vllm' has no attribute 'y'", "/v/verl/trainer/main_ppo.py"),
        "Blocked",
        "dependency",
    ),
    "a hub that says no": (
        raised(
            "requests.exceptions.HTTPError: 404 Client Error for url: https://huggingface.co/q", "/v/verl/trainer/main_ppo.py"
        ),
        "Blocked",
        "model hub",
    ),
    "a service of the user's that fails": (
        raised("requests.exceptions.HTTPError: 500 Server Error for url: http://10.0.0.4:1729/v1", "/q/w.py"),
        "Blocked",
        "network",
    ),
    "a reward server that fails": (
        STEP.format(1) + raised("requests.exceptions.HTTPError: 500 Server Error for url: http://10.0.0.4:5000", "/q/reward.py"),
        "Blocked",
        "reward model",
    ),
    "a rendezvous without the others": (
        raised("torch.distributed.DistStoreError: 1/8 joined", PACKAGES + "torch/d.py"),
        "Blocked",
        "network",
    ),
    "an assertion in training": (STEP.format(1) + raised("AssertionError: 2D", PACKAGES + "te/linear.py"), "Fail", "dependency"),
    "an assertion before anything": (raised("AssertionError: 2D", PACKAGES + "te/linear.py"), "Fail", "dependency"),
    "only an effect, in training": (
        STEP.format(1) + "ray.exceptions.ActorDiedError: The actor died unexpectedly.\n",
        "Fail",
        "Ray",
    ),
    "only an effect, at the start": ("ray.exceptions.ActorDiedError: The actor died unexpectedly.\n", "Blocked", "Ray"),
    "an effect before its cause": (
        "ray.exceptions.ActorDiedError: The actor died.\n"
        + raised("ValueError: no target", "/b/src/megatron/bridge/peft/lora.py"),
        "Fail",
        "PEFT",
    ),
    "a file that is not there": (raised("FileNotFoundError: '/x/y.bin'", "/v/verl/utils/fs.py"), "Blocked", "trainer"),
    "a driver that does not answer": (raised("RuntimeError: NVML_ERROR_UNKNOWN", "/v/verl/utils/device.py"), "Blocked", "host"),
    "an engine that breaks while the model is built": (
        BUILT + raised("RuntimeError: bad", PACKAGES + "vllm/v1/engine/core.py"),
        "Blocked",
        "rollout engine",
    ),
    "a trainer that breaks while the model is built": (
        BUILT + raised("TypeError: bad", "/v/verl/workers/w.py"),
        "Fail",
        "trainer",
    ),
    "a trainer that breaks at the start": (raised("TypeError: bad", "/v/verl/workers/w.py"), "Fail", "trainer"),
    "memory that ends in an update, without the log's beginning": (
        'Traceback (most recent call last):\n  File "/v/verl/workers/actor.py", line 9, in update_policy\n    x()\n'
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n",
        "Fail",
        "memory",
    ),
    "a package that asks another one for what it lacks": (
        "step:1 - actor/loss:0.5 - training/global_step:1\n"
        + raised("AttributeError: module 'PIL.Image' has no attribute 'ExifTags'", "/e/site-packages/datasets/features/image.py"),
        "Blocked",
        "dependency",
    ),
    "memory that ends at the start": (raised("torch.OutOfMemoryError: CUDA out of memory.", "/v/verl/w.py"), "Blocked", "memory"),
    "a step that breaks, without the log's beginning": (
        'Traceback (most recent call last):\n  File "/v/verl/trainer/ray_trainer.py", line 9, in fit\n    x()\nTypeError: bad\n',
        "Fail",
        "trainer",
    ),
    "a model that cannot be built, without the log's beginning": (
        'Traceback (most recent call last):\n  File "/v/verl/workers/w.py", line 9, in init_model\n    x()\nTypeError: bad\n',
        "Fail",
        "trainer",
    ),
    "memory that ends in an update whose own error is cut off": (
        raised("ray.exceptions.RayTaskError(OutOfMemoryError): ray::W.update_actor() (pid=1)", "/v/verl/ray_trainer.py")
        + '  File "/v/verl/workers/actor/dp.py", line 9, in forward_micro_batch\n',
        "Fail",
        "memory",
    ),
    "memory that ends at the start and is cut off": (
        'Traceback (most recent call last):\n  File "/q/w.py", line 9, in load\n    raise OutOfMemoryError("no")\n',
        "Blocked",
        "memory",
    ),
    "a first exchange that fails": (raised("RuntimeError: NCCL error: remote process exited", "/q/w.py"), "Blocked", "network"),
    "a service that does not answer": (raised("httpx.ConnectTimeout: no answer", "/q/w.py"), "Blocked", "network"),
    "an option that does not exist": (raised("pydantic_core.ValidationError: 1 error for Args", "/q/w.py"), "Blocked", "config"),
    "data that are no JSON": (raised("json.decoder.JSONDecodeError: Expecting value", "/q/w.py"), "Blocked", "data"),
    "a GPU that fails at once": (raised("RuntimeError: CUDA error: initialization error", "/q/w.py"), "Blocked", "host"),
    "a download of a package's build": (
        raised("urllib.error.HTTPError: HTTP Error 404: Not Found", "/tmp/pip-install-x1/pkg/setup.py"),
        "Blocked",
        "dependency",
    ),
    "a test that raises": (raised("ValueError: no", "/b/tests/unit/test_names.py"), "Fail", "test"),
    "an option whose value nobody knows": (
        BUILT + raised("ValueError: Unknown lr scheduler: zigzag", "/v/verl/trainer/t.py"),
        "Blocked",
        "config",
    ),
    "advantages that do not fit their rewards": (
        raised("RuntimeError: The size of tensor a (6) must match the size of tensor b (24)", "/s/q.py").replace(
            "in work", "in compute_advantages"
        ),
        "Fail",
        "training",
    ),
    "a weight that does not fit its Megatron name": (
        raised("ValueError: Shapes differ for megatron param a.b.weight:", "/q/w.py"),
        "Fail",
        "provider",
    ),
    "what this version cannot": (raised("ValueError: fp4 is not supported on this device", "/q/w.py"), "Blocked", "config"),
    "two packages that do not fit": (
        raised("TypeError: Client.send() got an unexpected keyword argument 'x'", "/q/w.py"),
        "Blocked",
        "dependency",
    ),
    "a provider that its message names": (
        raised("TypeError: QProvider.__init__() got an unexpected keyword argument 'x'", "/q/w.py"),
        "Fail",
        "provider",
    ),
    "an excerpt that begins in a traceback": (
        '  File "/b/src/megatron/bridge/models/q.py", line 9, in provide\n    table[name]\nKeyError: 7\n',
        "Fail",
        "provider",
    ),
    "an excerpt that ends in a traceback": (
        'Traceback (most recent call last):\n  File "/b/src/megatron/bridge/models/q.py", line 9, in provide\n    table[na',
        "Fail",
        "provider",
    ),
    "an excerpt that ends in a step": (
        '[rank1]:   File "/opt/Megatron-LM/megatron/core/transformer/block.py", line 9, in forward\n[rank1]:     layer(',
        "Fail",
        "trainer",
    ),
    "an engine's traceback whose files are cut off": (
        "(EngineCore_DP0 pid=7) ERROR 01-31 10:00:00 [core.py:8] Traceback (most recent call last):\n"
        '(EngineCore_DP0 pid=7) ERROR 01-31 10:00:00 [core.py:8]   File "/opt/ve',
        "Blocked",
        "rollout engine",
    ),
    "a traceback without its indentation, in a web page's quotation marks": (
        "Traceback (most recent call last):\nFile “/opt/vllm/v1/core.py”, line 9, in run\ngo(config)\nValueError: no\n",
        "Blocked",
        "rollout engine",
    ),
    "IPython's traceback": (
        "ValueError                                Traceback (most recent call last)\n<ipython-input-3-aa> in <module>\n"
        "----> 1 engine = LLM(path)\n\n/opt/vllm/entrypoints/llm.py in __init__(self, model)\n    101     go()\n"
        "--> 102     raise ValueError(1)\n\nValueError: 1\n",
        "Blocked",
        "rollout engine",
    ),
    "IPython's traceback that is cut off": (
        "ArrowInvalid                              Traceback (most recent call last)\nCell In[1], line 2\n"
        '----> 2 rows = load_dataset("q")\n\nFile ~/v/lib/python3.10/site-packages/datasets/load.py:25, in load_dataset(path)\n',
        "Blocked",
        "data",
    ),
    "an import that is cut off": (
        'Traceback (most recent call last):\n  File "/q/w.py", line 1, in <module>\n    from megatron.bridge import AutoBridge\n'
        '  File "/b/src/megatron/bridge/a.py", line 6, in <module>\n    from megatron.bridge import q\n  File "/b/src/me',
        "Blocked",
        "dependency",
    ),
    "another process's error that is cut off": (
        'Traceback (most recent call last):\n  File "/v/verl/trainer/ppo/ray_trainer.py", line 9, in fit\n    ray.get(x)\n'
        "ray.exceptions.RayTaskError(TypeError): ray::WorkerDict.actor_rollout_compu\n",
        "Fail",
        "trainer",
    ),
    "all of it indented": (
        ' Traceback (most recent call last):\n   File "/b/src/megatron/bridge/q.py", line 9, in x\n     x()\n KeyError: 7\n',
        "Fail",
        "provider",
    ),
    "an update of the engine's weights that another process refuses": (
        'Traceback (most recent call last):\n  File "/s/train.py", line 3, in train\n    actors.update_weights()\n'
        '  File "/s/group.py", line 4, in update_weights\n    ray.get(x)\n'
        '  File "/v/lib/python3.12/site-packages/ray/_private/worker.py", line 9, in get_objects\n    r',
        "Fail",
        "refit",
    ),
    "a sentence that calls itself a failure": (
        "(SGLangEngine pid=3) [2026-01-31 10:00:00 DP1 TP0] Failed to update parameter online: out of range\n",
        "Fail",
        "refit",
    ),
    "a configuration that an options class refuses, behind a bar": (
        "Loading:  50%|#  | 1/2 [00:01<00:01](EngineCore pid=3) ERROR 01-31 10:00:00 [core.py:8] ValueError: no such option\n",
        "Blocked",
        "rollout engine",
    ),
    "a step whose excerpt ends at the call of it": (
        'Traceback (most recent call last):\n  File "/v/verl/trainer/main_ppo.py", line 9, in run\n    trainer.fit()\n  Fi',
        "Fail",
        "trainer",
    ),
    "a method that only Ray's own line names, with what is left of its colours": (
        "[36m(TaskRunner pid=1)[0m Unhandled error (suppress with 'RAY_X=1'): [36mray::WorkerDict.actor_rollout_save_checkpoint()"
        '[39m (pid=2)\n[36m(TaskRunner pid=1)[0m   File "/v/verl/single_controller/base.py", line 9, in func\n',
        "Fail",
        "trainer",
    ),
    "memory behind activation checkpoints": (
        BUILT + raised("RuntimeError: odd", PACKAGES + "torch/utils/checkpoint.py", "/v/verl/workers/actor/dp_actor.py"),
        "Fail",
        "training",
    ),
    "code that lies below a folder called data": (raised("TypeError: bad", "/data/me/verl/workers/w.py"), "Fail", "trainer"),
    "an application that hydra only carries": (
        raised("TypeError: bad", "/q/w.py", PACKAGES + "hydra/_internal/utils.py"),
        "Fail",
        "user code",
    ),
    "an engine that had started": (
        'Traceback (most recent call last):\n  File "/opt/vllm/w.py", line 9, in start_worker_execution_loop\nValueError: no\n',
        "Fail",
        "rollout engine",
    ),
    "only that a launched process failed": (
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n",
        "Unknown",
        "launcher",
    ),
    "only that a launched process failed, in training": (
        STEP.format(1) + "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n",
        "Fail",
        "launcher",
    ),
    "a quotation": (
        "> [rank0]: Traceback (most recent call last):\n"
        '> [rank0]:   File "/b/src/megatron/bridge/q.py", line 9, in provide\n> [rank0]: KeyError: 7\n',
        "Fail",
        "provider",
    ),
    "the first of two processes": (
        '(A pid=1) Traceback (most recent call last):\n(A pid=1)   File "/b/src/megatron/bridge/q.py", line 9, in provide\n'
        '(A pid=1) KeyError: 7\nTraceback (most recent call last):\n  File "/q/z.py", line 1, in main\nValueError: it ended\n',
        "Fail",
        "provider",
    ),
    "NaN as Megatron says it": (
        " iteration 4/ 9 | consumed samples: 8 | lm loss: 1.0E+00 | grad norm: nan |\n",
        "Fail",
        "training",
    ),
    "an end": (STEP.format(0.5) + DONE, "Pass", ""),
    "an end with residual words": (
        STEP.format(0.5) + DONE + "resource_tracker: There appear to be 1 leaked shared_memory objects\n",
        "Pass",
        "",
    ),
    "an end with NaN in it": (STEP.format("nan") + DONE, "Fail", "training"),
    "an end with infinity in it": (STEP.format("inf") + DONE, "Fail", "training"),
    "an end that ended badly": (STEP.format(0.5) + DONE + "process exited with exit code 1\n", "Unknown", ""),
    "an end, and another run that is cut off": (DONE + "Training Progress:  50%|#  | 1/2 [00:10<00:10]\n", "Unknown", ""),
    "an excerpt without an end": (STEP.format(0.5), "Unknown", ""),
    "prose": ("hello\nworld\n", "Unknown", ""),
    "passing tests": ("......                     [100%]\n6 passed in 2.31s\n", "Pass", ""),
    "passing tests, some expected to fail": ("=== 6 passed, 1 xfailed, 2 warnings in 2.31s ===\n", "Pass", ""),
    "tests that cannot be imported": ("=== 3 passed, 2 errors in 2.31s ===\n", "Blocked", "test"),
    "an end without the steps before it": ("[after training is done] datetime: 2026-01-31 10:00:00 \n", "Unknown", ""),
    "an end as Ray says it": ("Job 'raysubmit_x1' succeeded\n", "Unknown", ""),
    "a document that speaks of an end": (
        "A log should show `Training Progress: 100%|1/1|`, or:\nTraining Progress: 100%|...| 5/5\n"
        "+ grep -E 'Training Progress: 100%|Traceback' x.log\n    print('Max number of steps has been reached')\n",
        "Unknown",
        "",
    ),
    "an end that was set short": ("Timeout has been reached, stopping training early\n", "Unknown", ""),
    "a job that was taken away": (
        "slurmstepd: error: *** JOB 7 ON n CANCELLED AT 2026-01-01T00:00:00 DUE TO PREEMPTION ***\n",
        "Blocked",
        "Slurm",
    ),
    "a configuration that speaks of errors": (
        "+ python3 -m x data.truncation='error'\n  'exit_on_error': True, 'FAILED': 0\n  error_rate ....... 0\n",
        "Unknown",
        "",
    ),
    "prose that speaks of errors": ("If the run failed with an error, look for exceptions. It died yesterday.\n", "Unknown", ""),
    "a sentence around a traceback": (
        "我运行后报错如下\n" + raised("ModuleNotFoundError: No module named 'q'", "/q/w.py"),
        "Blocked",
        "dependency",
    ),
    "a check of Ray's that fails": (
        "(TaskRunner pid=8) [2026-01-31 10:00:00,120 C 8 8] plasma_store.cc:41: Check failed: entry != nullptr \n",
        "Blocked",
        "Ray",
    ),
    "Ray that does not come up": (
        raised("TimeoutError: Timed out after 30 seconds, no socket", PACKAGES + "ray/_private/services.py"),
        "Blocked",
        "Ray",
    ),
    "a traceback of which only the announcement is left": (
        "(SGLangEngine pid=3) [2026-01-31 10:00:00 TP0] Scheduler hit an exception: Traceback (most recent call last):\n",
        "Blocked",
        "rollout engine",
    ),
    "the same while weights are sent": (
        "Update weights:  40%|#   | 4/10 [00:03<00:04]\n"
        "(SGLangEngine pid=3) [2026-01-31 10:00:00 TP0] Scheduler hit an exception: Traceback (most recent call last):\n",
        "Fail",
        "rollout engine",
    ),
    "records that a log collector put on one line": (
        "Jan 31 10:00:00.120 | ERROR 01-31 10:00:00 [core.py:7] EngineCore failed to start. ERROR 01-31 10:00:00 [core.py:7] "
        'Traceback (most recent call last): ERROR 01-31 10:00:00 [core.py:7]   File "/opt/vllm/core.py", line 5, in run\n',
        "Blocked",
        "rollout engine",
    ),
    "an entry that a saved state lacks": (
        'Traceback (most recent call last):\n  File "/q/w.py", line 4, in <module>\n'
        "    schedule.load_state_dict(saved[\"schedule\"])\nKeyError: 'schedule'\n",
        "Fail",
        "checkpoint",
    ),
    "a trainer that resumes, cut off": (
        f'Traceback (most recent call last):\n  File "{PACKAGES}transformers/trainer.py", line 9, in train\n    state = Sta',
        "Fail",
        "trainer",
    ),
    "a backward pass of DeepSpeed, without the log's beginning": (
        raised("RuntimeError: odd", "/q/w.py", PACKAGES + "deepspeed/runtime/engine.py").replace("in work", "in backward"),
        "Fail",
        "training",
    ),
    "activations that are computed again": (
        raised(
            "torch.utils.checkpoint.CheckpointError: torch.utils.checkpoint: Recomputed values differ",
            PACKAGES + "torch/utils/checkpoint.py",
        ).replace("in work", "in backward"),
        "Fail",
        "training",
    ),
    "a step that Megatron's schedule only drives": (
        'Traceback (most recent call last):\n  File "/m/megatron/training/training.py", line 9, in train_step\n    x()\n'
        '  File "/m/megatron/core/pipeline_parallel/schedules.py", line 9, in forward_step\n    x()\nTypeError: bad\n',
        "Fail",
        "trainer",
    ),
    "a reward function of the user's own trainer": (
        STEP.format(1) + raised("KeyError: 'board'", "/q/own_trainer.py").replace("in work", "in _score_output"),
        "Fail",
        "reward model",
    ),
    "a source without a reward function": (
        STEP.format(1) + raised("NotImplementedError: no function for 'riddles'", "/v/verl/workers/reward_manager/own.py"),
        "Fail",
        "reward model",
    ),
    "ranks whose launcher numbers the lines": (
        '[0]:Traceback (most recent call last):\n[0]:  File "/b/src/megatron/bridge/q.py", line 9, in provide\n[0]:    x()\n'
        "[0]:KeyError: 7\n",
        "Fail",
        "provider",
    ),
    "a traceback whose indentation a collector removed": (
        '[2026-01-31 10:00:00] Traceback (most recent call last):\n[2026-01-31 10:00:00]   File "/v/verl/ppo.py", line 3, '
        "in fit\n[2026-01-31 10:00:00]     self.validate()\n[2026-01-31 10:00:00]     ^^^^^^^^^^^^^\n"
        '[2026-01-31 10:00:00]   File "/v/verl/workers/reward_manager/own.py", line 4, in __call__\n[2026-01-31',
        "Fail",
        "reward model",
    ),
    "an engine that wakes up without memory": (
        'Traceback (most recent call last):\n  File "/opt/vllm/w.py", line 9, in wake_up\n    x()\nRuntimeError: CUDA Error: o\n',
        "Fail",
        "rollout engine",
    ),
    "a compiler that the excerpt's last line names": (
        'Traceback (most recent call last):\n  File "/opt/triton/runtime/build.py", line 3, in _build\n'
        '    raise RuntimeError("Failed to find C compiler. Plea',
        "Blocked",
        "dependency",
    ),
    "a row without a column, in a data loading process": (
        raised("KeyError: Caught KeyError in DataLoader worker process 1.", "/q/w.py")
        + 'Original Traceback (most recent call last):\n  File "/q/index.py", line 5, in locate\n    x()\nKeyError: 41\n',
        "Fail",
        "data",
    ),
    "an excerpt that begins within a frame": (
        "own/verl/utils/rl_dataset.py\", line 4, in _build\n    row[key]\n    ~~~^^^^^\nKeyError: 'task'\n",
        "Blocked",
        "data",
    ),
    "a reward file of the user's that calls a service": (
        'Traceback (most recent call last):\n  File "/v/verl/q/q_reward2.py", line 1, in <module>\n    r = requests.get(u)\n'
        f'  File "{PACKAGES}requests/sessions.py", line 9, in send\n    ada',
        "Blocked",
        "reward model",
    ),
    "parameters that FSDP cannot wrap": (
        raised("ValueError: parameters of two types", PACKAGES + "torch/distributed/fsdp/_flat_param.py"),
        "Fail",
        "parallel state",
    ),
    "advantages of another length, in the user's own loop": (
        'Traceback (most recent call last):\n  File "/q/ppo.py", line 5, in update\n    advantages = returns[:-1] - values\n'
        "RuntimeError: The size of tensor a (5) must match the size of tensor b (4)\n",
        "Fail",
        "training",
    ),
    "a remote call of which only the name is left": (
        "ray.exceptions.RayTaskError: ray::PolicyWorker.generate() (pid=7, ip=10.0.0.4)\n",
        "Fail",
        "rollout engine",
    ),
    "attention that has no kernel for this input": (
        STEP.format(1) + raised("ValueError: no kernel fits", PACKAGES + "transformer_engine/pytorch/attention/dot.py"),
        "Fail",
        "training",
    ),
    "a model's file that ends too early": (
        f'Traceback (most recent call last):\n  File "{PACKAGES}transformers/modeling_utils.py", line 9, in load_state_dict\n'
        f'    x()\n  File "{PACKAGES}torch/serialization.py", line 9, in _legacy_load\n    y()\nEOFError: Ran out of input\n',
        "Blocked",
        "model path",
    ),
    "a group of processes that does not form, cut off": (
        'Traceback (most recent call last):\n  File "/q/t.py", line 4, in main\n    dist.init_process_group("nccl")\n  File "/op',
        "Blocked",
        "network",
    ),
    "ranks whose lines a launcher of tasks marks": (
        'index/0 [default0]:[rank0]:   File "/m/megatron/core/datasets/builder.py", line 9, in build\n'
        "index/0 [default0]:[rank0]:     x()\nindex/0 [default0]:[rank0]: ValueError: no documents\n",
        "Blocked",
        "data",
    ),
    "a column that pyarrow cannot read": (
        raised("pyarrow.lib.ArrowNotImplementedError: lists of lists", "/q/rows.py"),
        "Blocked",
        "data",
    ),
    "a weight that the engine's model does not have": (
        "ValueError: There is no module or parameter named 'tower.proj' in OwnForCausalLM\n",
        "Blocked",
        "rollout engine",
    ),
    "a module that Python could not load, cut off": (
        'Traceback (most recent call last):\n  File "/q/compiler.py", line 7, in create\n    import_module(name)\n'
        '  File "<frozen importlib._bootstrap>", line 9, in _find_and_load_unlocked\n',
        "Blocked",
        "dependency",
    ),
    "an NPU that cannot be used": (
        raised("RuntimeError: Initialize:own.ts:217 NPU function error: aclrtSetDevice(device_id), error code is 7", "/q/run.py"),
        "Blocked",
        "host",
    ),
    "an NPU that fails in a step": (
        STEP.format(1) + raised("RuntimeError: run:own.cpp:7 NPU function error: aclOwn(x), error code is 9", "/q/run.py"),
        "Fail",
        "training",
    ),
    "an assertion about an option": (
        raised("AssertionError", "/q/train.py").replace("x()", "assert args.rows % len(devices) == 0"),
        "Blocked",
        "config",
    ),
    "an assertion about a value that was computed": (
        raised("AssertionError", "/q/train.py").replace("x()", "assert rows % len(devices) == 0"),
        "Fail",
        "user code",
    ),
    "a folder that belongs to another user, in a notebook": (
        "RayTaskError(PermissionError)             Traceback (most recent call last)\nCell In[3], line 2\n----> 2 get(task)\n\n"
        "File /opt/q/hooks.py:7, in wrapper(*args)\n      6 def wrapper(*args):\n----> 7     return call(*args)\n",
        "Blocked",
        "host",
    ),
    "a name that a trainer's own command does not define": (
        raised("UnboundLocalError: cannot access local variable 'reward_model'", PACKAGES + "trl/scripts/own.py"),
        "Fail",
        "trainer",
    ),
    "a loss that is computed in a patched trainer": (
        raised("RuntimeError: odd", "/q/compiled/OwnTrainer.py").replace("in work", "in _OwnTrainer.compute_loss"),
        "Fail",
        "training",
    ),
    "failing tests": ("FAILED tests/test_x.py::test_a - assert 1 == 2\n=== 1 failed, 5 passed in 2.31s ===\n", "Fail", "test"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_cause_is_judged_by_kind_by_whose_code_raised_it_and_by_phase(name: str, tmp_path: Path) -> None:
    text, verdict, boundary = CASES[name]
    answer = triaged(tmp_path, text)
    assert (answer.verdict, answer.boundary) == (verdict, boundary), answer
    assert verdict != "Blocked" or "No evidence against the code under test" in answer.advice
    assert verdict not in ("Fail", "Blocked") or (answer.evidence and answer.advice and answer.follow_up)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("an image that exists", "apptainer build --force"),
        ("a package without a wheel for this platform", "tool.uv.required-environments"),
        ("the code of a harness", "--limit 5"),
    ],
)
def test_an_error_that_a_tool_prints_is_not_searched_in_its_code(name: str, words: str, tmp_path: Path) -> None:
    answer = triaged(tmp_path, CASES[name][0])
    assert words in answer.follow_up and "grep that message" not in answer.follow_up


NO_PASS = {
    "a run that failed before one that passed": BUILT + STEP.format(1) + raised("TypeError: x", "/q/w.py") + NEXT_RUN + DONE,
    "a run whose settings were wrong long before one that passed": "Error executing job with overrides: ['a=1']\n"
    + raised("ValueError: x", "/q/w.py")
    + NEXT_RUN
    + BUILT
    + "nothing to see here\n" * 9000
    + DONE,
    "a run that passed before one that is cut off": BUILT + STEP.format(1) + DONE + NEXT_RUN,
    "a run that passed before one that is interrupted": BUILT + DONE + NEXT_RUN + "KeyboardInterrupt\n",
    "a run that passed before one that cannot read its configuration": BUILT
    + DONE
    + NEXT_RUN
    + raised("omegaconf.errors.ConfigKeyError: Key 'x' is not in struct", "/q/w.py"),
    "tests that passed before a run whose settings are wrong": "= 6 passed in 2.0s =\nCould not override 'actor.lr'.\n"
    + "Key 'lr' is not in struct\n",
    "a run that passed before a job that Slurm refused": DONE + "sbatch: error: Batch job submission failed: Invalid qos\n",
    "tests that passed before some that cannot be read": "= 6 passed in 2.0s =\n!!! Interrupted: 1 error during collection !!!\n",
    "tests that failed before others that passed": "= 1 failed in 2.3s =\n= test session starts =\n= 6 passed in 2.0s =\n",
    "tests that passed in a command that failed": "6 passed in 2.0s\n##[error]Process completed with exit code 1.\n",
    "a last validation that breaks": DONE + raised("TypeError: x", "/v/verl/trainer/ppo/ray_trainer.py"),
    "a last validation of somebody else's that breaks": DONE + raised("ValueError: x", "/q/w.py"),
    "a last checkpoint that has no room": DONE
    + raised("OSError: [Errno 28] No space left on device", "/v/verl/utils/checkpoint/m.py"),
    "a last step without memory": DONE + raised("torch.OutOfMemoryError: CUDA out of memory. Tried", "/v/verl/w.py"),
    "a process that died after the last step": DONE + "ray.exceptions.ActorDiedError: The actor died unexpectedly.\n",
    "a job that was cancelled after its last step": DONE
    + "slurmstepd: error: *** JOB 7 ON n CANCELLED AT 2026-01-01T00:00:00 ***\n",
    "a job whose time was over after its last step": DONE
    + "slurmstepd: error: *** JOB 7 ON n CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT ***\n",
    "a command that was stopped after its last step": DONE + "timeout: sending signal TERM to command 'bash'\n+ exit 124\n",
    "a crash after the last step": DONE + "Fatal Python error: Segmentation fault\n",
    "a metric that misses its threshold": DONE + '│ FAIL │ data["train/loss"]["10"] < 0.1 │ 0.4 │ \n',
    "another bar's end": "Loading shards: 100%|##| 2/2\nTraining Progress:  50%|#  | 1/2 [00:10<00:10]\n",
}


@pytest.mark.parametrize("between", ["", "waiting for the next try\n"])
def test_a_run_that_could_not_start_before_one_that_passed_is_mentioned(between: str, tmp_path: Path) -> None:
    failed = NEXT_RUN + raised("ImportError: cannot import name 'x'", "/q/w.py") + between
    answer = triaged(tmp_path, failed + NEXT_RUN + BUILT + STEP.format(1) + DONE)
    assert answer.verdict == "Pass" and "last of 2 runs" in answer.advice and "cannot import name 'x'" in answer.advice


@pytest.mark.parametrize("name", NO_PASS)
def test_nothing_that_speaks_against_a_success_is_overlooked(name: str, tmp_path: Path) -> None:
    answer = triaged(tmp_path, NO_PASS[name])
    assert answer.verdict not in ("Pass", "Noise"), answer


@pytest.mark.parametrize(
    "text",
    [
        raised("ConnectionResetError: [Errno 104] Connection reset by peer", "/q/w.py") + "trying again\n",
        "x.py:1: UserWarning: no fast path\n" + raised("ModuleNotFoundError: No module named 'apex'", "/v/verl/u.py"),
    ],
)
def test_an_exception_that_a_run_outlived_is_named_and_no_pass(text: str, tmp_path: Path) -> None:
    answer = triaged(tmp_path, text + BUILT + STEP.format(1) + DONE)
    assert answer.verdict == "Unknown" and "after an error that it survived" in answer.advice and answer.line


def called(error: str, *calls: str) -> str:
    frames = "".join(
        f'  File "{file}", line 11, in {name}\n    x()\n' for file, _, name in (call.rpartition(":") for call in calls)
    )
    return f"Traceback (most recent call last):\n{frames}{error}\n"


VLLM, FSDP = PACKAGES + "vllm/v1/worker/gpu_worker.py", PACKAGES + "torch/distributed/fsdp/fully_sharded_data_parallel.py"
OPERATIONS = {
    "an engine that fails to take weights": (
        called("RuntimeError: odd", "/v/verl/workers/sharding_manager.py:update_weights_via_ipc", f"{VLLM}:collective_rpc"),
        "refit",
    ),
    "an engine that fails to generate": (
        called("RuntimeError: odd", "/n/nemo_rl/models/generation/worker.py:generate", f"{VLLM}:x"),
        "rollout engine",
    ),
    "weights that another process could not share": (
        "ray.exceptions.RayTaskError(RuntimeError): ray::OwnTrainActor.update_weights() (pid=7, ip=10.0.0.4)\n"
        f'  File "/s/utils/common.py", line 3, in serialize\n    x()\n  File "{VLLM}", line 4, in take\n    y()\n'
        "RuntimeError: odd\n",
        "refit",
    ),
    "an engine that fails in another process's call to generate": (
        "ray.exceptions.RayTaskError(RuntimeError): ray::OwnTrainActor.generate() (pid=7, ip=10.0.0.4)\n"
        f'  File "{VLLM}", line 4, in take\n    y()\nRuntimeError: odd\n',
        "rollout engine",
    ),
    "sharding that fails in a save": (
        called("AssertionError: odd", "/o/olmo/train.py:save_sharded_checkpoint", f"{FSDP}:_impl"),
        "checkpoint",
    ),
    "sharding that fails in a step": (called("AssertionError: odd", "/o/olmo/train.py:fit", f"{FSDP}:_impl"), "parallel state"),
    "a file that torch writes": (
        called("RuntimeError: odd", "/q/train.py:keep", PACKAGES + "torch/serialization.py:_save"),
        "checkpoint",
    ),
    "a file that torch reads": (
        called("RuntimeError: odd", "/q/train.py:keep", PACKAGES + "torch/serialization.py:_load"),
        "user code",
    ),
    "a resume through a trainer's integration": (
        called("ValueError: odd", PACKAGES + "transformers/integrations/deepspeed.py:deepspeed_load_checkpoint"),
        "checkpoint",
    ),
    "an integration that loads no checkpoint": (
        called("ValueError: odd", PACKAGES + "transformers/integrations/deepspeed.py:deepspeed_init"),
        "model path",
    ),
    "weights that a trainer puts into its engine": (
        called("AssertionError: odd", "/t/trl/trainer/grpo_trainer.py:_move_model_to_vllm", f"{VLLM}:load_weights"),
        "refit",
    ),
    "weights that a trainer's server gives to its engine by name": (
        called("ValueError: odd", PACKAGES + "trl/scripts/own_serve.py:update_named_param", f"{VLLM}:load_weights"),
        "refit",
    ),
    "weights that an engine reads itself": (
        called("AssertionError: odd", "/t/trl/trainer/grpo_trainer.py:_generate", f"{VLLM}:load_weights"),
        "rollout engine",
    ),
    "a reward of one's own": (
        called("AttributeError: odd", "/t/trl/trainer/grpo_trainer.py:_calculate_rewards", "/q/agent.py:tidy_reward"),
        "reward model",
    ),
    "what only sounds like a reward": (
        called("AttributeError: odd", "/t/trl/trainer/grpo_trainer.py:_generate", "/q/agent.py:rewarding_turns"),
        "trainer",
    ),
    "the reward's own server in a save": (
        called("ValueError: odd", "/o/train.py:save_checkpoint", "/o/rewards/remote_rm.py:get_reward"),
        "reward model",
    ),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_what_was_being_done_says_more_than_the_library_that_raised(name: str, tmp_path: Path) -> None:
    text, boundary = OPERATIONS[name]
    assert triaged(tmp_path, BUILT + text).boundary == boundary


def test_code_that_no_boundary_knows_is_what_to_look_at(tmp_path: Path) -> None:
    answer = triaged(tmp_path, raised("IndexError: 1", "/q/heads.py"))
    assert (answer.verdict, answer.boundary, answer.confidence) == ("Fail", "user code", "low")
    assert answer.follow_up.startswith('work at /q/heads.py:11 ("x()")') and "unchanged" not in answer.follow_up
    tested = triaged(tmp_path, raised("IndexError: 1", "/q/verl/heads.py"))
    assert tested.follow_up.startswith('work at /q/verl/heads.py:11 ("x()"')


def test_the_field_that_pydantic_refuses_is_in_the_evidence(tmp_path: Path) -> None:
    said = "1 validation error for EngineConfig\nmax_num_seqs\n  Input should be less than 5 [type=less_than, input_value=8]\n"
    more = "    For further information visit the page of that version\n"
    answer = triaged(tmp_path, raised(f"pydantic_core._pydantic_core.ValidationError: {said}{more}", "/q/w.py"))
    assert answer.verdict == "Blocked" and "; max_num_seqs; Input should be less than 5" in answer.evidence


def test_what_triton_says_below_the_code_is_in_the_evidence(tmp_path: Path) -> None:
    error = "triton.compiler.errors.CompilationError: at 3:4:\n    if a:\n    ^\nAssertionError('x is fp16, then bf16')"
    assert triaged(tmp_path, raised(error, "/u/kernels.py")).evidence.endswith("at 3:4: AssertionError('x is fp16, then bf16')")


def test_a_judgement_says_what_its_boundary_means(tmp_path: Path) -> None:
    own = triaged(tmp_path, STEP.format(0.5) + raised("AttributeError: 'type' object has no attribute 'pad'", "/u/model.py"))
    assert own.boundary == "user code" and own.advice.startswith(signatures.load().unknown.meanings["user code"])


def test_what_a_message_asks_for_comes_first(tmp_path: Path) -> None:
    said = "ValueError: no rows fit. Please raise max_length."
    answer = triaged(tmp_path, raised(said, PACKAGES + "datasets/load.py"))
    assert answer.follow_up.startswith('what the message asks for ("Please raise max_length."); work at ')
    assert "asks for" not in triaged(tmp_path, raised("ValueError: no rows fit", PACKAGES + "datasets/load.py")).follow_up


def test_a_report_or_a_table_below_an_error_is_nothing_that_it_asks_for(tmp_path: Path) -> None:
    for below in (
        "Set JAX_TRACEBACK_FILTERING=off to include these.",
        "        Accounting Mode                       : Enabled",
        "Only tensors of floating point can require gradients",
    ):
        assert "asks for" not in triaged(tmp_path, raised(f"ValueError: too odd\n{below}", "/u/steps.py")).follow_up


@pytest.mark.parametrize(
    "said",
    ["Expected 2D array, got 1D array instead:", "f() arg 1 must be a class", "no argument 'enable_queue' here", "is disabled"],
)
def test_what_differs_and_names_of_options_are_nothing_that_a_message_asks_for(said: str, tmp_path: Path) -> None:
    assert "asks for" not in triaged(tmp_path, raised(f"ValueError: {said}", "/u/steps.py")).follow_up


def test_a_secret_in_what_a_message_asks_for_is_masked(tmp_path: Path) -> None:
    secret = "hf_" + "Ab1" * 12
    answer = triaged(tmp_path, raised(f"ValueError: no. Please pass HF_TOKEN={secret} again.", "/q/hub.py"))
    assert "asks for" in answer.follow_up and secret not in answer.follow_up + answer.evidence


def test_an_exception_that_only_carries_another_is_not_the_cause(tmp_path: Path) -> None:
    carried = raised("KeyError: 'prompts'", PACKAGES + "datasets/load.py")
    text = f"ray.train.WorkerGroupError: Training failed due to worker errors:\n[Rank 0 Error Snippet]:\n{carried}"
    answer = triaged(tmp_path, text)
    assert (answer.evidence, answer.boundary) == ("KeyError: 'prompts'", "data")


def test_a_faulthandlers_frames_begin_with_the_innermost(tmp_path: Path) -> None:
    text = 'File "/n/nemo_rl/models/megatron/train.py", line 126 in model_forward\n  File "/n/examples/run.py", line 9 in main\n'
    answer = triaged(tmp_path, text)
    assert (answer.verdict, answer.phase) == ("Fail", "train")
    assert "train.py:126, in model_forward" in answer.evidence


def test_a_place_is_named_by_who_called_not_by_who_only_passed_the_call_on(tmp_path: Path) -> None:
    frames = (("/n/nemo_rl/algorithms/dpo.py", "dpo_train"), (PACKAGES + "ray/_private/worker.py", "get"))
    text = "".join(f'  File "{file}", line 11, in {name}\n    x\n' for file, name in frames)
    assert "dpo.py:11, in dpo_train" in triaged(tmp_path, "Traceback (most recent call last):\n" + text).evidence


def test_an_exception_that_python_ignored_does_not_count_against_a_run(tmp_path: Path) -> None:
    text = "Exception ignored in: <function Tracker.__del__ at 0x1>\n" + raised("ValueError: x", "/q/w.py")
    assert triaged(tmp_path, text + BUILT + STEP.format(1) + DONE).verdict == "Pass"


def test_tests_may_start_ray_as_often_as_they_like(tmp_path: Path) -> None:
    text = (
        "= test session starts =\n" + NEXT_RUN + raised("ValueError: expected", "/q/w.py") + NEXT_RUN + "= 2 passed in 9.0s =\n"
    )
    assert "several runs" not in triaged(tmp_path, text).advice


@pytest.mark.parametrize(
    "text",
    [
        "Exception ignored in: <function Tracker.__del__ at 0x1>\n" + raised("ConnectionResetError: [Errno 104]", "/q/w.py"),
        raised("RuntimeError: DataLoader worker (pid(s) 7) exited unexpectedly", PACKAGES + "torch/utils/data/dataloader.py"),
        'Traceback (most recent call last):\n  File "/q/w.py", line 1, in __del__\n    close()\nBrokenPipeError: [Errno 32]\n',
    ],
)
def test_what_is_left_over_after_the_last_step_does_not_count_against_it(text: str, tmp_path: Path) -> None:
    assert triaged(tmp_path, BUILT + STEP.format(1) + DONE + text).verdict in ("Pass", "Noise")


def test_every_judgement_decides_a_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any one of them, some log of these is judged otherwise."""
    known, fits = signatures.load(), Judgement.fits
    used: list[Judgement] = []
    logs: dict[int, list[tuple[Path, bytes]]] = {at: [] for at in range(len(known.unknown.judgements))}

    def answer(path: Path) -> bytes:
        return msgspec.json.encode(diagnose.of_log(path))

    def noting(self: Judgement, *facts: str) -> bool:
        fit = fits(self, *facts)
        used.extend([self] * fit)
        return fit

    with monkeypatch.context() as patch:
        patch.setattr(Judgement, "fits", noting)
        for number, case in enumerate(CASES.values()):
            path = tmp_path / f"{number}.log"
            path.write_text(case[0])
            used.clear()
            before = answer(path)
            for each in filter(known.unknown.judgements.__contains__, used):  # not those of sentences
                logs[known.unknown.judgements.index(each)].append((path, before))
    for at, judgement in enumerate(known.unknown.judgements):
        others = known.unknown.judgements[:at] + known.unknown.judgements[at + 1 :]
        changed = msgspec.structs.replace(known, unknown=msgspec.structs.replace(known.unknown, judgements=others))
        monkeypatch.setattr(signatures, "load", lambda changed=changed: changed)
        assert any(answer(path) != before for path, before in logs[at]), f"no log reaches {judgement}"


def test_every_boundary_with_a_follow_up_can_occur_without_a_rule() -> None:
    known = signatures.load()
    reachable = {boundary.boundary for boundary in known.reading.boundaries} | {
        each.boundary_is for each in known.unknown.judgements
    }
    assert set(known.steps.follow_ups) <= reachable | {"unknown"}


def test_a_failed_checkpoint_is_followed_up_without_one_and_with_that_limitation(tmp_path: Path) -> None:
    answer = triaged(tmp_path, CASES["a checkpoint that does not fit"][0])
    assert "without saving and resuming" in answer.follow_up and answer.limitation.startswith("without save/resume")
    engine = triaged(tmp_path, raised("RuntimeError: capture of graph 4 failed", PACKAGES + "vllm/v1/engine/core.py"))
    assert "enforce_eager=True" in engine.follow_up and "CUDA graph" in engine.limitation
    assert engine.phase == "start" and engine.line == 4


FOLLOW_UPS = {
    "an engine that does not start": "the engine alone",
    "a source without a reward function": "the reward function alone",
    "activations that are computed again": "without gradient checkpointing",
    "Ray that does not come up": "raylet.out",
    "a trainer that was written for another vLLM": "collective_rpc",
    "a provider that its message names": "inspect.signature",
    "a folder that belongs to another user, in a notebook": "ls -ld of the folders",
    "a traceback of which only the announcement is left": "the line that names the exception, which is missing here",
}


@pytest.mark.parametrize("name", FOLLOW_UPS)
def test_what_to_run_next_follows_from_the_evidence_not_only_from_the_boundary(name: str, tmp_path: Path) -> None:
    answer = triaged(tmp_path, CASES[name][0])
    assert FOLLOW_UPS[name] in answer.follow_up, answer


OF_CELL = "NameError: name 'settings' is not defined"
KINDS = {
    "AttributeError: 'PeftModelForCausalLM' object has no attribute 'vllm_engine'": "fast_inference=True",
    "ValueError: You should supply an encoding or a list of encodings that includes input_ids": "leave data_collator out",
    "ValueError: Default process group has not been initialized, call init_process_group.": "WORLD_SIZE=1",
    "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling cublasCreate(handle)": "the GPU is full",
    "RuntimeError: \"normal_kernel_cuda\" not implemented for 'Char'": "keep the dtype",
    "RuntimeError: Expected tensor for argument #1 to have one of the following scalar types: Long, Int": "dtype of the ids",
    "RuntimeError: Expected 2D (unbatched) or 3D (batched) input to conv1d, but got [37, 6, 302, 16]": "Conv2d",
    "Exception: expected `,` or `}` at line 2 column 10": "json.tool",
    "UnicodeDecodeError: 'utf-8' codec can't decode bytes in position 0-1: unexpected end of data": "tail -c 200",
    "AttributeError: 'LLM' object has no attribute 'eval'": "not a torch module",
    "AttributeError: 'TextDataModule' object has no attribute 'prepare_data_per_node'": "super().__init__()",
    "AttributeError: module 'torch' has no attribute 'fx'": "half replaced",
    "ValueError: Some keys are not used by the HfArgumentParser: ['--debug']": "key=value",
    "RuntimeError: a leaf Variable that requires grad is being used in an in-place operation.": "no_grad",
    "RuntimeError: Error compiling objects for extension": "MAX_JOBS=1",
    "RuntimeError: a Tensor with 16 elements cannot be converted to Scalar": "one value per sample",
    "IndexError: The shape of the mask [2, 11] at index 1 does not match the shape of the indexed": "were made for different",
    "TabError: inconsistent use of tabs and spaces in indentation": "tabnanny",
    "ValueError: Mixed precision training (`--fp16`) can only be used on CUDA devices.": "torch.cuda.is_available()",
    "RuntimeError: environment server unavailable (HTTP 000): http://127.0.0.1:36001": "start the server",
    "urllib.error.HTTPError: HTTP Error 403: Forbidden": "curl -IL",
    "ValueError: On entry to DGESDD parameter number 10 had an illegal value": "np.isfinite",
    "ValueError: a and p must have same size": "a probability per item",
    "SyntaxError: invalid syntax": "python --version",
    "UnpicklingError: Weights only load failed. Re-running would likely succeed": "add_safe_globals",
    "RuntimeError: Invalid mt19937 state": "random generator",
    "ValueError: EOCD not found": "unzip -t",
    "ValueError: No objects to concatenate": "an earlier error in the log",
    "RuntimeError: NVML_SUCCESS == r INTERNAL ASSERT FAILED": "nvidia-smi",
    "TypeError: cannot unpack non-iterable Meta object": "printed just before it",
    "AttributeError: 'dict' object has no attribute 'item'": "outputs['loss']",
    "EOFError: EOF when reading a line": "isatty",
    "RuntimeError: only Tensors of floating point dtype can require gradients": "ids of tokens",
    "XlaRuntimeError: UNIMPLEMENTED: CaptureToGraph is not implemented for CUDA below version 12.3.": "nvidia-smi",
    "KeyError: 'instruction'": "the keys of the first row",
    "openai_harmony.HarmonyError: invalid tiktoken vocab file: expected token and rank": "in base64",
    "serde.Error: invalid type: null, expected f64, line 33": "not finite",
    "SchemaInferenceError: Please pass `features` or at least one example when writing data": "no row is left",
    "ValueError: Failed job id seven": "by hand",
    "ValueError: AlbertModel does not support gradient checkpointing.": "supports_gradient_checkpointing",
    "ValueError: No valid checkpoint found in output directory (out)": "without resume_from_checkpoint",
    "FlagError: the flag 'rows' is defined twice": "imported twice",
    "RuntimeError: grad can be implicitly created only for scalar outputs": "the shape of the loss",
    "TypeError: 'NoneType' object is not callable": "an optional import",
    "IndexError: argmax(): Expected reduction dim 1 to have non-zero size.": "which tensor is empty",
    "KeyError: 'embed_tokens.weight'": "the names in each file of weights",
    "OSError: [Errno 2] No such file or directory: 'models/one/consolidated.01.pth'": "how many parts",
    "RuntimeError: Trying to backward through the graph a second time": "call it once",
    "RuntimeError: one of the variables has been modified by an inplace operation: [torch.FloatTensor [2]]": "set_detect_anomaly",
    "AttributeError: 'DataParallel' object has no attribute 'encode'": ".module.encode",
    "AttributeError: 'QwenForCausalLM' object has no attribute 'layers'": "a level deeper",
    "FileExistsError: /c/one already exists": "overwrite",
    'psycopg2.errors.UndefinedObject: type "vector" does not exist': "CREATE EXTENSION",
    "KeyError: 'architectures'": "config.json of the model's folder",
    "RuntimeError: server launch failed": "the server's own log",
    "AssertionError: model parallel group is not initialized": "initialize_model_parallel",
    'TypeError: can only concatenate list (not "str") to list': "the chat template applied first",
    "struct.error: unpack requires a buffer of 8 bytes": "head -c 200",
    "RuntimeError: \"normal_kernel\" not implemented for 'Char'": "the dtype in that line",
    "UnicodeEncodeError: 'cp1252' codec can't encode character": "PYTHONIOENCODING=utf-8",
    "ValueError: Expected target size (8, 5), got torch.Size([8])": "the shapes of what the model returns and of the labels",
    "RuntimeError: assigned grad has data of a different type": "without mixed precision",
    "RuntimeError: cuDNN Error: decoding is not supported with a sink": "another attention",
    "AttributeError: 'builtin_function_or_method' object has no attribute 'pad'": "hides the module",
    "airflow.exceptions.AirflowSensorTimeout: Sensor has timed out; run duration of 601 seconds": "what the sensor waits for",
    "RuntimeError: No config file found - is the name correct?": "adapter_config.json",
    'CompilationError: at 1:0: ValueError("type fp8 not supported in this architecture")': "compute_cap",
    "ValueError: Invalid format specifier": "in that f-string",
    "RuntimeError: NCCL is not available": "hccl for NPUs",
    "KeyError: 'test'": "which splits the data set has",
    "IsADirectoryError: [Errno 21] Is a directory: '/d/x'": "docker -v makes a folder",
    "sqlite3.OperationalError: table runs has 9 columns but 7 values were supplied": ".schema",
    "FileNotFoundError: No shards match '/d/part_*'": "ls of the folder in that pattern",
    "ValueError: too many values to unpack (expected 2)": "docstring",
    "KeyError: 'TEAM_NODE_RANK'": "env | grep",
    "IndentationError: unexpected indent": "an edit or a merge",
    "TypeError: train() got an unexpected keyword argument 'seed_all'": "inspect.signature",
    "TypeError: Object of type float32 is not JSON serializable": "json.dump",
    "TypeError: argument of type 'bool' is not iterable": "of another type than the code expects",
    "KeyError: 'labels_of_batch'": "the keys that the mapping has there",
    "ValueError: min() arg is an empty sequence": "left it empty or shorter",
    "RuntimeError: 3 unexpected keys of the state_dict": "model.state_dict()",
    "ValueError: global shape differs for the key decoder": "that the checkpoint was saved with",
    "ValueError: operands could not be broadcast together with shapes (9,2) (7,)": "the shapes of the tensors in that line",
    "RuntimeError: PassManager::run failed": "TORCH_COMPILE_DISABLE=1",
    "RuntimeError: mask.size(2) == n INTERNAL ASSERT FAILED at softmax.cu:51": "without that fused kernel",
    "ValueError: Cannot redistribute a DTensor of mesh (tp=2) on mesh (ep=2)": "the device meshes and placements",
    "FileNotFoundError: [Errno 2] No such file or directory: '/psm_33bf'": "shared memory",
    "AttributeError: 'NoneType' object has no attribute 'hook'": "which value is None",
    'TypeError: can only concatenate str (not "NoneType") to str': "which value is None",
    "FileNotFoundError: [Errno 2] No such file or directory": "command -v",
    "ValueError: Template `q3` does not support packing.": "the option that the message is about",
    "AssertionError: Only support micro batch size = 1 for generation": "a value that it allows",
    "RuntimeError: packing is incompatible with this attention": "the option that the message is about",
    "AttributeError: 'Gate' object has no attribute 'hook'": "where that attribute is set",
    "TypeError: MyForCausalLM.__init__() got an unexpected keyword argument 'extra'": "where that keyword comes from",
    "TypeError: Means.update() missing 2 required positional arguments: 'empty' and 'epoch'": "def of Means.update",
    "NameError: name 'prompts' is not defined": "pyflakes",
    "ValueError: File /data/a.jsonl not found": "ls -l of that path",
    "UnboundLocalError: local variable 'batch' referenced before assignment": "the branch of that function",
    "AssertionError: assert not args.bf16": "one excludes that of the assertion",
    "RuntimeError: mat1 and mat2 must have the same dtype, but got Float and Double": "float64",
    "RuntimeError: shape '[33, 64, 10]' is invalid for input of size 40550400": "which dimension the tensor really has",
    "AssertionError: assert rows == columns": "the values that the assertion compares",
    "RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn": "what cuts the graph",
    "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)": "head -c 200",
}


@pytest.mark.parametrize("place", ["Cell In[5], line 4", "Input In [5], in <cell line: 4>()"])
def test_a_name_that_a_notebook_lacks_is_that_of_another_cell(place: str, tmp_path: Path) -> None:
    cell = "NameError                 Traceback (most recent call last)\n{}\n----> 4 model(settings)\n\n{}\n"
    answer = triaged(tmp_path, cell.format(place, OF_CELL))
    assert (answer.verdict, answer.boundary) == ("Blocked", "user code") and "Restart and Run All" in answer.follow_up


@pytest.mark.parametrize("error", KINDS)
def test_what_to_look_at_follows_from_the_kind_of_an_error_that_no_rule_knows(error: str, tmp_path: Path) -> None:
    answer = triaged(tmp_path, raised(error, "/work/own/steps.py"))
    assert not answer.rule and KINDS[error] in answer.follow_up, answer
    assert "steps.py" in answer.follow_up, "and from the place"


def test_every_kind_of_error_is_looked_at() -> None:
    kinds = signatures.load().steps.kinds
    examples = [(error, "/work/own/steps.py") for error in KINDS] + [(OF_CELL, "Cell In[5]")]
    first = {
        next((at for at, kind in enumerate(kinds) if re.search(kind.evidence, error) and re.search(kind.code, file)), None)
        for error, file in examples
    }
    assert [kind.evidence for at, kind in enumerate(kinds) if at not in first] == []


@pytest.mark.parametrize(
    ("memory", "held"),
    [
        (
            "GPU 0 has a total capacity of 79.1 GiB of which 2.6 GiB is free. Including x, this process has 10 GiB memory in use",
            "66.5",
        ),
        (
            "GPU 0 has a total capacity of 79.1 GiB of which 2.6 GiB is free. Including x, this process has 76 GiB memory in use",
            "",
        ),
        (
            "GPU 0 has a total capacity of 79.1 GiB of which 9.1 GiB is free. Process 7 has 60 GiB memory in use. "
            "Including x, this process has 10 GiB memory in use",
            "60.0",
        ),
        (
            "(GPU 0; 79.33 GiB total capacity; 27.2 GiB already allocated; 222 MiB free; 31.6 GiB reserved in total by PyTorch)",
            "47.5",
        ),
        (
            "(GPU 0; 79.33 GiB total capacity; 71.2 GiB already allocated; 222 MiB free; 77.6 GiB reserved in total by PyTorch)",
            "",
        ),
        (
            "GPU 0 has a total capacity of 39 GiB of which 8 GiB is free. Including x, this process has 31 GiB memory in use. "
            "Process 7 has 414 MiB memory in use. ",
            "",
        ),
        ("no numbers", ""),
    ],
)
def test_memory_that_other_processes_hold_is_named(memory: str, held: str, tmp_path: Path) -> None:
    answer = triaged(
        tmp_path, raised(f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB. {memory}", "/w/s.py")
    )
    assert (f"Other processes hold {held}" in answer.advice) is bool(held), answer.advice
    assert ("end those that an earlier run left" in answer.follow_up) is bool(held)


def test_memory_in_pieces_is_named(tmp_path: Path) -> None:
    text = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 7.71 GiB. GPU 0 has a total capacity of 23.68 GiB of "
        "which {} is free. Including x, this process has 19.2 GiB memory in use. Of it 15 GiB is allocated, and 4 GiB is "
        "reserved by PyTorch but unallocated."
    )
    answer = triaged(tmp_path, raised(text.format("4.48 GiB"), "/w/s.py"))
    assert "4.0 GiB reserved that no tensor uses" in answer.advice and "expandable_segments" in answer.follow_up
    assert "; then " in answer.follow_up, "and what the rule proposes"
    assert "expandable_segments" not in triaged(tmp_path, raised(text.format("1.48 GiB"), "/w/s.py")).follow_up


def test_one_json_object_a_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.log").write_text(STEP.format(0.5) + DONE)
    (tmp_path / "b.log").write_text("cp: x: No space left on device\n")
    assert cli.main(["triage", "--json", str(tmp_path / "a.log"), str(tmp_path / "b.log")]) == 3
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["verdict"] for row in rows] == ["Pass", "Blocked"]
    assert {"verdict", "boundary", "phase", "rule", "line", "evidence", "confidence", "advice", "follow_up"} <= rows[1].keys()
    assert cli.main(["triage", str(tmp_path / "a.log")]) == 0


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("empty.log", b"", "is empty"),
        ("binary.log", b"\x7fELF\0\0\0", "not text"),
        ("packed.log", b"\x1f\x8b\x08", "not text"),
        ("m.jsonl", b"step 1\n", "not a metrics record"),
        ("m.json", b"{}", "contains no metrics"),
        ("m.json", b"[1, 2]", "not a metrics record"),
    ],
)
def test_what_cannot_be_judged_is_one_message(name: str, data: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(BadInput, match=words):
        views.triage_file(tmp_path / name)
    with pytest.raises(BadInput, match="No such file"):
        views.triage_file(tmp_path / "absent.log")


def test_memory_that_was_free_is_no_lack_of_it(tmp_path: Path) -> None:
    error = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 79.11 GiB of"
        " which {} is free. {}Including non-PyTorch memory, this process has 9.1 GiB memory in use."
    )
    answer = triaged(tmp_path, raised(error.format("66.43 GiB", ""), "/w/s.py"))
    assert "66.4 GiB of that GPU's memory were free" in answer.advice and "ulimit -v" in answer.follow_up
    answer = triaged(tmp_path, raised(error.format("66.43 GiB", "9.20 GiB allowed; "), "/w/s.py"))
    assert "9.2 GiB of that GPU's memory only" in answer.advice and "memory_fraction" in answer.follow_up
    assert "were free" not in triaged(tmp_path, raised(error.format("12.5 MiB", ""), "/w/s.py")).advice
