"""Records a run of a PyTorch language model, for hif8-calibrate check: record_reference.py MODEL OUT [TOKENS].

MODEL is a checkpoint that transformers.AutoModelForCausalLM loads, OUT the .safetensors file. It gets `input_ids`, the
`hidden_states.N` behind every block, `logits`, and `input_amax.MODULE`, the largest magnitude that goes into each
linear layer, so that a description that is wrong is told where. Run it in float32 on the CPU: a description is right
when both agree to 1e-4.
"""

import sys

import torch
from capture import DTYPES, save_safetensors

DTYPES[torch.int64] = "I64"


class Recorder:
    """Hooks the blocks and linear layers of a decoder."""

    def __init__(self, model, blocks):
        self.tensors, self.hooks = {}, []
        for number, block in enumerate(blocks):
            self.hooks.append(block.register_forward_hook(self._state(f"hidden_states.{number}")))
        for name, module in model.named_modules():
            weight = getattr(module, "weight", None)
            if isinstance(weight, torch.Tensor) and weight.dim() == 2 and not isinstance(module, torch.nn.Embedding):
                self.hooks.append(module.register_forward_pre_hook(self._amax(f"input_amax.{name}")))

    def _state(self, name):
        def record(_module, _arguments, output):
            state = output[0] if isinstance(output, tuple) else output
            self.tensors[name] = state.detach().float().clone()

        return record

    def _amax(self, name):
        def record(_module, arguments):
            x = arguments[0].detach()
            if x.numel():
                largest = x.abs().max().float().reshape(1)
                self.tensors[name] = torch.maximum(largest, self.tensors.get(name, largest))

        return record

    def remove(self):
        for hook in self.hooks:
            hook.remove()


def decoder_blocks(model):
    """The longest list of modules is that of the blocks."""
    lists = [m for m in model.modules() if isinstance(m, torch.nn.ModuleList)]
    return max(lists, key=lambda m: sum(p.numel() for p in m.parameters()))


def record(model, ids, path):
    """Runs `model` on ids [samples, tokens] and writes what `check` reads."""
    recorder = Recorder(model, decoder_blocks(model))
    with torch.no_grad():
        logits = model(ids).logits
    recorder.remove()
    save_safetensors(path, {"input_ids": ids, "logits": logits.float(), **recorder.tensors})


def main():
    from transformers import AutoModelForCausalLM

    path, out = sys.argv[1:3]
    length = int(sys.argv[3]) if len(sys.argv) > 3 else 64
    model = AutoModelForCausalLM.from_pretrained(path, torch_dtype=torch.float32).eval()
    torch.manual_seed(0)
    record(model, torch.randint(0, model.config.get_text_config().vocab_size, (2, length)), out)


if __name__ == "__main__":
    main()
