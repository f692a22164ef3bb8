"""A transformers Trainer on the CPU, under DDP."""

import marks

marks.begin("transformers")
import tempfile  # noqa: E402
from typing import Any  # noqa: E402

import torch  # noqa: E402
from transformers import (  # noqa: E402
    BertConfig,
    BertForSequenceClassification,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

marks.mark("imported")
WORDS = 100


class Sentences(torch.utils.data.Dataset):  # type: ignore[misc]  # mypy runs without torch
    """Sentences of random words."""

    def __len__(self) -> int:
        return 1 << 20

    def __getitem__(self, place: int) -> dict[str, torch.Tensor]:
        return {"input_ids": torch.randint(0, WORDS, (8,)), "labels": torch.tensor(place % 2)}


class Marks(TrainerCallback):  # type: ignore[misc]  # as above
    """Marks the begin of the training and its steps."""

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        """Mark that the model is distributed."""
        marks.mark("model")

    def on_step_end(self, _: Any, state: Any, *__: Any, **___: Any) -> None:
        """Mark a step."""
        marks.step_done(state.global_step)


torch.set_num_threads(1)
arguments = TrainingArguments(
    output_dir=tempfile.gettempdir(),
    max_steps=1_000_000,
    per_device_train_batch_size=4,
    use_cpu=True,
    ddp_backend="gloo",
    report_to=[],
    save_strategy="no",
    logging_strategy="no",
    disable_tqdm=True,
)
marks.mark("process group")
config = BertConfig(
    vocab_size=WORDS,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=64,
    max_position_embeddings=16,
)
model = BertForSequenceClassification(config)
Trainer(model=model, args=arguments, train_dataset=Sentences(), callbacks=[Marks()]).train()
