#!/usr/bin/env python3
"""Compute what the golden tests compare with: unmodified diffusers and transformers, float32, on the CPU.

  python3 training/reference.py                    # compares with tests/golden/emoji-zimage, 2 minutes
  python3 training/reference.py --write FOLDER     # writes the files anew

The noise of a stored case is used again, so that a run on another machine differs by rounding only."""
import argparse, json, os
import torch
from safetensors.torch import load_file, save_file
import diffusers, transformers
from diffusers import ZImagePipeline
from diffusers.models.transformers import transformer_z_image

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MODEL, GOLDEN = os.path.join(ROOT, "models/emoji-zimage"), os.path.join(ROOT, "tests/golden/emoji-zimage")
STEPS = (8, 20)

CASES = [
    dict(
        name="apple_256_cfg",
        prompt="a red apple on a blue background",
        negative_prompt="a green pear, flat style",
        guidance_scale=4.0,
        width=256,
        height=256,
        seed=1,
    ),
    dict(
        name="cat_128_nocfg",
        prompt="a grinning cat face",
        negative_prompt=None,
        guidance_scale=0.0,
        width=128,
        height=128,
        seed=2,
        blocks=True,
    ),
    dict(
        name="odd_208x240_cfg",
        prompt="Crème brûlée ☕ & 猫 (naïve)…  two  spaces\n– it's 3.5× BIGGER, a dog on the left and a pizza on the right 🍕",
        negative_prompt="",
        guidance_scale=4.0,
        width=208,
        height=240,
        seed=3,
    ),
]


def format_prompt(tokenizer, text):
    """The chat text that a prompt becomes, and its ids."""
    chat = tokenizer.apply_chat_template(
        [{"role": "user", "content": text}], tokenize=False, add_generation_prompt=True, enable_thinking=True
    )
    return chat, tokenizer(chat).input_ids


def encode(pipe, case, tensors):
    """Adds ids and embeddings of both prompts."""
    negative, guided = case["negative_prompt"], case["guidance_scale"] > 0
    case["chat"], case["token_ids"] = format_prompt(pipe.tokenizer, case["prompt"])
    tensors["token_ids"] = torch.tensor(case["token_ids"], dtype=torch.int32)
    embeds, negative_embeds = pipe.encode_prompt(
        [case["prompt"]],
        device="cpu",
        do_classifier_free_guidance=guided,
        negative_prompt=None if negative is None else [negative],
    )
    tensors["prompt_embeds"] = embeds[0]
    assert len(embeds[0]) == len(case["token_ids"])
    if guided:
        case["negative_token_ids"] = format_prompt(pipe.tokenizer, negative)[1]
        tensors["negative_token_ids"] = torch.tensor(case["negative_token_ids"], dtype=torch.int32)
        tensors["negative_prompt_embeds"] = negative_embeds[0]


class Watch:
    """Keeps what the transformer is given and gives, and with |blocks| also what its parts give in the first step."""

    def __init__(self, transformer, tensors, blocks):
        self.calls, self.hooks, self.tensors = [], [], tensors
        self.hooks.append(transformer.register_forward_hook(self.note_call))
        self.dispatch = transformer_z_image.dispatch_attention_fn
        if not blocks:
            return
        self.is_first_layer = False
        self.hooks.append(transformer.layers[0].attention.register_forward_pre_hook(self.enter_first_layer))
        transformer_z_image.dispatch_attention_fn = self.attend
        parts = {
            "t_embedder": transformer.t_embedder,
            "x_embedder": transformer.all_x_embedder["2-1"],
            "cap_embedder": transformer.cap_embedder,
            "final_layer": transformer.all_final_layer["2-1"],
        }
        for stack in ("noise_refiner", "context_refiner", "layers"):
            parts.update({f"{stack}.{i}": block for i, block in enumerate(getattr(transformer, stack))})
        for name, part in parts.items():
            self.hooks.append(part.register_forward_hook(lambda m, a, out, name=name: self.keep(name, out)))

    def note_call(self, module, args, result):
        self.calls.append((torch.stack(list(args[0])), args[1].clone(), torch.stack([r.clone() for r in result[0]])))

    def enter_first_layer(self, module, args):
        self.is_first_layer = not self.calls

    def attend(self, q, k, v, *args, **options):
        out = self.dispatch(q, k, v, *args, **options)
        if self.is_first_layer:
            self.is_first_layer = False
            for name, tensor in (("q_rope", q), ("k_rope", k), ("v", v), ("attention", out)):
                self.keep(f"layers.0.{name}", tensor)
        return out

    def keep(self, name, tensor):
        if not self.calls:
            self.tensors["step0." + name] = tensor.clone()

    def close(self):
        for hook in self.hooks:
            hook.remove()
        transformer_z_image.dispatch_attention_fn = self.dispatch


def denoise(pipe, case, tensors, steps):
    """One run of the sampler; returns its timesteps and sigmas."""
    watch = Watch(pipe.transformer, tensors, case.get("blocks") and steps == STEPS[0])
    tensors[f"latents_{steps}"] = pipe(
        case["prompt"],
        negative_prompt=case["negative_prompt"],
        height=case["height"],
        width=case["width"],
        num_inference_steps=steps,
        guidance_scale=case["guidance_scale"],
        latents=tensors["noise"].clone(),
        output_type="latent",
    ).images
    watch.close()
    for i in (0, steps // 2):
        for name, tensor in zip(("in", "t", "out"), watch.calls[i]):
            tensors[f"run{steps}.step{i}.{name}"] = tensor
    table = pipe.scheduler
    return dict(
        steps=steps,
        timesteps=[float(x) for x in table.timesteps],
        sigmas=[float(x) for x in table.sigmas],
        middle_step=steps // 2,
    )


def decode(vae, case, tensors):
    latents = tensors[f"latents_{STEPS[-1]}"]
    tensors["image"] = vae.decode(latents / vae.config.scaling_factor + vae.config.shift_factor).sample
    if case.get("blocks"):
        tensors["encoded_mean"] = vae.encode(tensors["image"].clamp(-1, 1)).latent_dist.mean


def compute(pipe, case, stored):
    """All tensors of a case. The noise is that of |stored|, or new where there is none."""
    tensors, shape = {}, (1, 16, case["height"] // 8, case["width"] // 8)
    encode(pipe, case, tensors)
    new = torch.randn(shape, generator=torch.Generator().manual_seed(case["seed"]))
    tensors["noise"] = stored["noise"] if stored else new
    case["runs"] = [denoise(pipe, case, tensors, steps) for steps in STEPS]
    decode(pipe.vae, case, tensors)
    case["file"] = case["name"] + ".safetensors"
    return {name: tensor.detach().contiguous() for name, tensor in tensors.items()}


def compare(name, tensors, stored):
    """Prints the tensors that differ most; returns the largest relative error."""
    errors = {}
    for key, want in stored.items():
        got, want = tensors[key].double(), want.double()
        errors[key] = float((got - want).norm() / want.norm().clamp(min=1e-30))
    for key in sorted(errors, key=errors.get)[-3:]:
        print(f"  {name} {key}: relative error {errors[key]:.1e}", flush=True)
    return max(errors.values())


def tokenize_again(tokenizer, folder):
    """The stored texts with the ids that transformers gives them now."""
    with open(os.path.join(folder, "tokenizer_cases.json")) as file:
        texts = [case["text"] for case in json.load(file)]
    return [dict(text=text, ids=tokenizer(text, add_special_tokens=False).input_ids) for text in texts]


def write(folder, cases, tokens):
    versions = dict(
        diffusers=diffusers.__version__, transformers=transformers.__version__, torch=torch.__version__, cases=cases
    )
    with open(os.path.join(folder, "cases.json"), "w") as file:
        json.dump(versions, file, indent=1, ensure_ascii=False)
    with open(os.path.join(folder, "tokenizer_cases.json"), "w") as file:
        json.dump(tokens, file, ensure_ascii=True, indent=0)


def make_references(model, folder=None, repeat=True):
    """Computes all cases; with |repeat| from the stored noise, and compared. Writes them where |folder| is given.
    Returns the largest relative error, 0 where nothing was compared."""
    torch.set_grad_enabled(False)
    pipe = ZImagePipeline.from_pretrained(model, torch_dtype=torch.float32)
    pipe.set_progress_bar_config(disable=True)
    cases, worst = [dict(case) for case in CASES], 0.0
    if folder:
        os.makedirs(folder, exist_ok=True)
    for case in cases:
        file = case["name"] + ".safetensors"
        stored = load_file(os.path.join(GOLDEN, file)) if repeat else None
        tensors = compute(pipe, case, stored)
        print("reference", case["name"], len(case["token_ids"]), "tokens", flush=True)
        if stored:
            worst = max(worst, compare(case["name"], tensors, stored))
        if folder:
            save_file(tensors, os.path.join(folder, file))
    tokens = tokenize_again(pipe.tokenizer, GOLDEN)
    with open(os.path.join(GOLDEN, "tokenizer_cases.json")) as file:
        n_different = sum(a != b for a, b in zip(tokens, json.load(file)))
    print(len(tokens), "tokenizer cases,", n_different, "differ from the stored ones", flush=True)
    if folder:
        write(folder, cases, tokens)
    return worst


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=MODEL)
    parser.add_argument("--write", metavar="FOLDER")
    options = parser.parse_args()
    error = make_references(options.model, options.write)
    print(f"largest relative error {error:.1e}")
    raise SystemExit(error > 1e-4)
