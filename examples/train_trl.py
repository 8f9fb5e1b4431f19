"""Train a tiny model with TRL's GRPO on tasks of the shipped pack, on a CPU. Start `quintain serve` first.

    pip install '.[trl]'
    python examples/train_trl.py --steps 2

It shows how the parts fit together, and nothing of what a language model can learn: the model is random, and each of
the words that it may say is a whole tool call. A real model brings its own tokenizer and chat template; all else is as
here. Nothing is downloaded.
"""

import argparse
import json
import os
import sys
import tempfile
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM
from trl import GRPOConfig, GRPOTrainer

from quintain.errors import UsageError
from quintain.trainers.trl import AwmGrpo

URL = os.environ.get("AWM_BASE_URL", "http://localhost:8899")
TASKS = ("outdoor_marketplace_1/0", "tool_library_1/3")
MOVES: tuple[tuple[str, dict[str, Any]], ...] = (
    *(("add_cart_item", {"product_id": product, "quantity": 2}) for product in (1, 2, 3)),
    *(("reserve_tool", {"tool_id": tool}) for tool in (3, 4, 5)),
    ("get_cart", {}),
)
"""The calls that the model can say; one of them solves each task, and it is the model's to find out which."""

START, END = "<|im_start|>", "<|im_end|>"
# Renders each message the same whatever follows it, and of the tools only their names, so that prompts stay short.
CHAT_TEMPLATE = """\
{%- if tools %}<|im_start|>system
{% for tool in tools %}{{ tool.function.name }} {% endfor %}<|im_end|>
{% endif %}
{%- for message in messages %}<|im_start|>{{ message.role }}
{{ message.content or '' }}
{%- for call in message.tool_calls or [] -%}
<tool_call>{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}</tool_call>
{%- endfor %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
RESPONSE_TEMPLATE = {
    "defaults": {"role": "assistant"},
    "start_anchor": "<|im_start|>assistant\n",
    "fields": {
        "tool_calls": {
            "open": "<tool_call>",
            "close_pattern": r"</tool_call>\s*",
            "repeats": True,
            "content": "json",
            "transform": {"type": "function", "function": "{content}"},
        },
        "content": {"close_pattern": r"<\|im_end\|>\s*", "content": "text"},
    },
}


def make_tokenizer(texts: list[str]) -> tuple[PreTrainedTokenizerFast, list[int]]:
    """A byte-level tokenizer trained on a few texts, and the tokens that the model may say."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=1000, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    calls = [
        f'<tool_call>{{"name": "{name}", "arguments": {json.dumps(arguments)}}}</tool_call>'
        for name, arguments in MOVES
    ]
    tokenizer.add_special_tokens([START, END, "<|pad|>"])
    tokenizer.add_tokens([AddedToken(call, normalized=False) for call in calls])
    made = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END, pad_token="<|pad|>")
    made.chat_template = CHAT_TEMPLATE
    made.response_template = RESPONSE_TEMPLATE
    return made, [made.convert_tokens_to_ids(word) for word in (*calls, END)]


def make_model(vocabulary: int) -> Qwen3ForCausalLM:
    """A random model of some hundred thousand parameters."""
    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=vocabulary,
            hidden_size=96,
            intermediate_size=192,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=24,
            max_position_embeddings=2048,
            tie_word_embeddings=True,
        )
    )


def settings(folder: str, options: argparse.Namespace, max_steps: int, silent: list[int]) -> GRPOConfig:
    """TRL's settings, for a CPU."""
    return GRPOConfig(
        output_dir=folder,
        max_steps=options.steps,
        per_device_train_batch_size=options.group * len(TASKS),
        num_generations=options.group,
        max_completion_length=384,  # of the whole episode, what tools answer included
        max_tool_calling_iterations=max_steps,
        generation_kwargs={"suppress_tokens": silent},
        learning_rate=options.learning_rate,
        lr_scheduler_type="constant",
        seed=options.seed,
        logging_steps=1,
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="GRPO of a tiny random model on two tasks of the shipped pack")
    parser.add_argument("--url", default=URL, help="address of a quintain server")
    parser.add_argument("--steps", type=int, default=2, help="optimiser steps")
    parser.add_argument("--group", type=int, default=4, help="rollouts of each task and step")
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    torch.set_num_threads(1)  # the model is too small to gain from more
    with (
        AwmGrpo(options.url, TASKS, model_digest="tiny-random-qwen3", max_steps=4, max_observation_chars=100) as spec,
        tempfile.TemporaryDirectory() as folder,
    ):
        tokenizer, sayable = make_tokenizer([row["prompt"][-1]["content"] for row in spec.rows])
        model = make_model(len(tokenizer))
        print(f"{sum(one.numel() for one in model.parameters())} parameters, {len(spec.rows)} tasks")
        silent = sorted(set(range(len(tokenizer))) - set(sayable))
        trainer = GRPOTrainer(
            model=model,
            processing_class=tokenizer,
            args=settings(folder, options, spec.max_steps, silent),
            train_dataset=spec.train_dataset,
            environment_factory=spec.environment_factory,
            reward_funcs=spec.reward_funcs,
        )
        trainer.train()
        print("step  reward  complete  masked  calls")
        for row in trainer.state.log_history:
            if "reward" in row:
                print(
                    f"{row['step']:4}  {row['reward']:6.3f}  {row['episodes/complete']:8.0f}  "
                    f"{row['episodes/masked']:6.0f}  {row['tools/call_frequency']:5.2f}"
                )


if __name__ == "__main__":
    try:
        main()
    except UsageError as error:
        print(f"train_trl: {error}", file=sys.stderr)
        sys.exit(2)
