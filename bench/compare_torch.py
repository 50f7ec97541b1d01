#!/usr/bin/env python3
"""Times graft's CUDA kernels and PyTorch's on the same shapes and the same card, and writes both as JSON.

    bench/compare_torch.py --graft build/release/graft --out docs/measurements/h200-ops.json

Graft is timed by `graft ops bench --device cuda:0 --json`, PyTorch by CUDA events around many calls; the two take turns,
operator by operator. Times are medians of several calls inside a CUDA graph, so that neither side pays for its front
end.
"""
import argparse
import json
import math
import statistics
import subprocess

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

try:
    from diffusers import ZImageTransformer2DModel
except ImportError:  # then graft's transformer is timed alone
    ZImageTransformer2DModel = None

DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def time_call(call, least_ms=2.0, total_ms=300.0):
    """Median milliseconds of |call|, as graft's are taken: several in one CUDA graph, until a replay lasts for
    |least_ms|, and replays for |total_ms|, so that the card is as warm and as slow in both."""
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    alone = statistics.median(replay(capture(call, 1), 1.0))
    n_calls = min(16, math.ceil(least_ms / alone))
    return statistics.median(replay(capture(call, n_calls), total_ms)) / n_calls


def capture(call, n_calls):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(n_calls):
            call()
    return graph


def replay(graph, total_ms, least_runs=15):
    """Milliseconds of each replay."""
    return time_all(graph.replay, total_ms, least_runs)


def time_all(call, total_ms, least_runs):
    """Milliseconds of each of many calls after a first one."""
    times = []
    call()
    while len(times) < least_runs or sum(times) < total_ms:
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        call()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return times


def random(shape, dtype):
    return torch.randn(shape, device="cuda").to(dtype)


def torch_call(op, shapes, dtype):
    """PyTorch's way to compute |op| on inputs of |shapes|, or None where it has none."""
    x = [random(s, dtype) if s else None for s in shapes] if op != "graft.linear_i8.v1" else []
    if op == "graft.linear.v1":
        return lambda: F.linear(*x)
    if op == "graft.rms_norm.v1":
        return lambda: F.rms_norm(x[0], x[0].shape[-1:], x[1] if len(x) > 1 else None, 1e-5)
    if op == "graft.layer_norm.v1":
        return lambda: F.layer_norm(x[0], x[0].shape[-1:], *x[1:3])
    if op == "graft.group_norm.v1":
        return lambda: F.group_norm(x[0], 32, *x[1:3])
    if op == "graft.softmax.v1":
        return lambda: F.softmax(x[0], -1)
    if op == "graft.silu.v1":
        return lambda: F.silu(x[0])
    if op in ("graft.add.v1", "graft.mul.v1"):
        return lambda: x[0] + x[1] if op == "graft.add.v1" else x[0] * x[1]
    if op == "graft.conv2d.v1":
        images, weight = (t.to(memory_format=torch.channels_last) for t in x[:2])
        return lambda: F.conv2d(images, weight, x[2] if len(x) > 2 else None, padding=weight.shape[-1] // 2)
    if op == "graft.scaled_dot_product_attention.v1":
        q, k, v = (t.transpose(1, 2) for t in x[:3])
        return lambda: F.scaled_dot_product_attention(q, k, v, enable_gqa=q.shape[1] != k.shape[1])
    if op == "graft.linear_i8.v1":  # the product alone, without scales
        k = shapes[0][-1]
        n = shapes[2][0]
        a, b = (torch.randint(-127, 128, (m, k), dtype=torch.int8, device="cuda") for m in (math.prod(shapes[0][:-1]), n))
        return lambda: torch._int_mm(a, b.t())
    return None


def with_backend(call, backend):
    def run():
        with sdpa_kernel(backend):
            call()
    return run


def time_or_none(call):
    try:
        return time_call(call) if call else None
    except RuntimeError:  # PyTorch has no kernel for it
        return None


def time_torch(op, shapes, dtype):
    """What PyTorch takes, and for attention what each of its back ends takes."""
    call = torch_call(op, shapes, dtype) if shapes else None
    times = {"torch_ms": time_or_none(call)}
    if call and op == "graft.scaled_dot_product_attention.v1":
        times["torch_cudnn_ms"] = time_or_none(with_backend(call, SDPBackend.CUDNN_ATTENTION))
        times["torch_flash_ms"] = time_or_none(with_backend(call, SDPBackend.FLASH_ATTENTION))
    return times


def peaks():
    """What the card can do: a copy beyond all caches, one of the size of a block's activations, and products of large
    random matrices."""
    source = torch.empty(1 << 30, dtype=torch.uint8, device="cuda").random_()
    target = torch.empty_like(source)
    result = {}
    for name, n in (("copy", source.numel()), ("copy_of_32_mib", 32 << 20)):
        milliseconds = time_call(lambda: target[:n].copy_(source[:n]))
        result[f"{name}_gb_per_s"] = 2 * n / milliseconds * 1e-6
    del source, target
    for name, dtype in DTYPES.items():
        a, b = random((8192, 8192), dtype), random((8192, 8192), dtype)
        result[f"{name}_tflop_per_s"] = 2 * 8192**3 / time_call(lambda: a @ b) * 1e-9
    return result


def bench_graft(program, op, dtype, case):
    command = [program, "ops", "bench", "--device", "cuda:0", "--op", op, "--dtype", dtype, "--json"]
    command += ["--case", case] if case else []
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else []


def run_graft(program, *arguments):
    command = [program, "bench", *arguments, "--device", "cuda:0", "--json"]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def make_diffusers_transformer(device="cuda", dtype=torch.bfloat16, side=128, n_tokens=77, **config):
    """Z-Image's transformer as diffusers has it, with random weights, and a call that evaluates it once."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device):
            model = ZImageTransformer2DModel(**config).eval()
            latent = torch.randn(model.in_channels, 1, side, side)
            prompt = torch.randn(n_tokens, model.config.cap_feat_dim)
            time = torch.full((1,), 0.5)
    finally:
        torch.set_default_dtype(before)
    return model, lambda forward: forward([latent], time, [prompt], return_dict=False)


def compare_transformer(program, weights, n_rounds):
    """One evaluation of Z-Image's transformer at 1024 x 1024 by graft, and where |weights| are bf16 by diffusers, too,
    as it stands and compiled; taking turns."""
    model = forwards = None
    if ZImageTransformer2DModel and weights == "bf16":
        model, call = make_diffusers_transformer()
        forwards = {"diffusers_ms": model.forward, "diffusers_compiled_ms": torch.compile(model)}
    rounds = []
    for _ in range(n_rounds):
        row = run_graft(program, "transformer", "--type", weights)
        with torch.no_grad():
            for name, forward in (forwards or {}).items():
                row[name] = statistics.median(time_all(lambda: call(forward), 1000.0, 7))
        rounds.append(row)
    del model, forwards
    torch.cuda.empty_cache()
    return average(rounds)


def compare(program, op, dtype, n_rounds, case=None):
    """Rows of |case|, or of all cases of |op|; graft and PyTorch take turns |n_rounds| times, and their times are
    averages."""
    rounds = []
    for _ in range(n_rounds):
        rows = bench_graft(program, op, dtype, case)
        rounds.append([row | time_torch(op, [tuple(s) if s else None for s in row.get("shapes", [])], DTYPES[dtype])
                       for row in rows])
    return [average(rows) | {"dtype": dtype} for rows in zip(*rounds)]


def average(rows):
    """One row of several that differ in what was measured."""
    result = dict(rows[0])
    for key, value in rows[0].items():
        if isinstance(value, float) and all(row.get(key) for row in rows):
            result[key] = statistics.mean(row[key] for row in rows)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graft", required=True, help="the program")
    parser.add_argument("--out", required=True, help="file to write")
    parser.add_argument("--commit", default="", help="commit of the program")
    parser.add_argument("--generate", action="store_true", help="also time pictures of the shipped model")
    parser.add_argument("--transformer", nargs="+", default=[], metavar="TYPE",
                        help="also time Z-Image's transformer of 6 billion made-up weights of these types, "
                             "bf16 beside diffusers")
    parser.add_argument("--model", default="models/emoji-zimage", help="folder of the model for --generate")
    parser.add_argument("--rounds", type=int, default=1, help="how many times graft and PyTorch take turns")
    parser.add_argument("--dtypes", nargs="+", default=["bf16"], choices=sorted(DTYPES))
    parser.add_argument("--ops", nargs="+", default=["linear", "scaled_dot_product_attention", "rms_norm", "layer_norm",
                                                     "group_norm", "conv2d", "softmax", "silu", "add", "mul"])
    parser.add_argument("--cases", nargs="+", default=[], help="only these cases; turns are then taken case by case")
    arguments = parser.parse_args()
    rows = []
    for dtype in arguments.dtypes:
        for noun in arguments.ops:
            op = f"graft.{noun}.v1"
            for case in arguments.cases or [None]:
                rows += compare(arguments.graft, op, dtype, arguments.rounds, case)
    driver = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True,
                            text=True, check=False).stdout.strip()
    report = {"card": torch.cuda.get_device_name(), "driver": driver, "torch": torch.__version__,
              "commit": arguments.commit, "peaks": peaks(), "ops": rows}
    if arguments.generate:
        report["generate"] = run_graft(arguments.graft, "generate", "-m", arguments.model)
    report["graft_peaks"] = run_graft(arguments.graft, "peak")
    report["transformer"] = [compare_transformer(arguments.graft, t, arguments.rounds) for t in arguments.transformer]
    with open(arguments.out, "w", encoding="utf-8") as file:
        json.dump(report, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
