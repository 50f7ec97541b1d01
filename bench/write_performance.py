#!/usr/bin/env python3
"""Writes docs/performance.md from the files in docs/measurements.

    bench/write_performance.py docs/measurements/*.json > docs/performance.md
"""
import json
import sys

HEAD = """# Performance

Written by `bench/write_performance.py` from the files in [measurements/](measurements/). Times are medians. Those of
graft are of whole runs of a plan as a caller sees them, PyTorch's of CUDA graphs; short kernels are repeated in a run, so
that launching and waiting do not count. Each section names the commit that was measured; later kernels are not in it.
"""


def copy_of_a_block(peaks):
    rate = peaks.get("copy_of_32_mib_gb_per_s")
    return f", one of 32 MiB {rate:.0f}" if rate else ""


def beside_diffusers(run):
    if not run.get("diffusers_ms"):
        return ""
    compiled = run.get("diffusers_compiled_ms")
    return (f"\ndiffusers in turns with it: {run['diffusers_ms']:.1f} ms"
            f"{f', compiled {compiled:.1f} ms' if compiled else ''}.")


def table(report):
    print(f"\n## {report['card']}, driver {report['driver']}, commit {report['commit'][:10]}\n")
    if note := report.get("note"):  # what differs from what stands above
        print(f"{note}\n")
    if peaks := report.get("peaks"):
        print(f"PyTorch {report['torch']}. A large copy moves {peaks['copy_gb_per_s']:.0f} GB/s (read and written)"
              f"{copy_of_a_block(peaks)}; products of "
              f"8192³ run at\n{peaks['bf16_tflop_per_s']:.0f} TFLOP/s in bf16 and {peaks['f32_tflop_per_s']:.0f} in f32.\n")
    if peak := report.get("graft_peaks"):
        products = ", ".join(f"{peak[key]:.0f} in {key.removesuffix('_tops')}" for key in peak if key.endswith("_tops"))
        clock = f"; clock {peak['clock_ghz']:.2f} GHz" if "clock_ghz" in peak else ""
        print(f"`graft bench peak`: copies {peak['copy_gb_per_s']:.0f} GB/s; products of 8192³, TOP/s: {products or 'none'}{clock}.\n")
    if "generate" in report:
        g = report["generate"]
        print(f"`graft bench generate`, the shipped model at its own size and steps: a picture in {g['seconds']:.3f} s, of "
              f"which drawing\n{g['denoise_seconds']:.3f} s and decoding {g['decode_seconds']:.3f} s; the first one, with opening "
              f"the model, {g['first_seconds']:.3f} s.\n")
    for run in report.get("transformer", []):
        print(f"`graft bench transformer --type {run['weights']}`: one evaluation of Z-Image's transformer, "
              f"{run['width']}×{run['height']},\n{run['prompt_tokens']} caption tokens, weights {run['weights']}, "
              f"activations {run['activations']}: {1e3 * run['seconds']:.1f} ms, {run['tflop_per_s']:.0f} TFLOP/s."
              f"{beside_diffusers(run)}\n")
    print("| operator | case | dtype | ms | PyTorch ms | TFLOP/s | GB/s |")
    print("| --- | --- | --- | ---: | ---: | ---: | ---: |")
    for row in report["ops"]:
        torch_ms = f"{row['torch_ms']:.4f}" if row.get("torch_ms") else "–"
        others = [f"{name} {row[f'torch_{name}_ms']:.4f}" for name in ("cudnn", "flash") if row.get(f"torch_{name}_ms")]
        torch_ms += f" ({', '.join(others)})" if others else ""
        print(f"| {row['op'].split('.')[1]} | {row['case']} | {row['dtype']} | {row['ms']:.4f} | {torch_ms} | "
              f"{row['gflop_per_s'] / 1000:.1f} | {row['gb_per_s']:.0f} |")


def main():
    print(HEAD, end="")
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            table(json.load(file))


if __name__ == "__main__":
    main()
