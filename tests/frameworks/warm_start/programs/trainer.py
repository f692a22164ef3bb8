"""Three steps of a transformers Trainer under DDP.

With KEEP_PROCESS_GROUP it ends without `destroy_process_group`, as many scripts do. A thread of gloo then may free a
tensor while Python ends, and the process ends by SIGABRT: see docs/warm-start.md.
"""

import os

import torch
import torch.distributed as dist
import transformers
from report import report
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

STEPS = 3
SEED = 3
WORDS = 100


class Sentences(torch.utils.data.Dataset):  # type: ignore[misc]  # mypy runs without torch
    """Sentences of random words, the same in each run."""

    def __len__(self) -> int:
        return 32

    def __getitem__(self, place: int) -> dict[str, torch.Tensor]:
        generator = torch.Generator().manual_seed(place)
        return {
            "input_ids": torch.randint(0, WORDS, (8,), generator=generator),
            "labels": torch.tensor(place % 2),
        }


torch.set_num_threads(1)
transformers.set_seed(SEED)
config = BertConfig(
    vocab_size=WORDS,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=64,
    max_position_embeddings=16,
)
model = BertForSequenceClassification(config)
arguments = TrainingArguments(
    output_dir=os.environ["OUTPUT_FOLDER"],
    max_steps=STEPS,
    per_device_train_batch_size=4,
    use_cpu=True,
    ddp_backend="gloo",
    report_to=[],
    save_strategy="no",
    logging_steps=STEPS,
    disable_tqdm=True,
    seed=SEED,
)
done = Trainer(model=model, args=arguments, train_dataset=Sentences()).train()
report((each.detach().numpy().tobytes() for each in model.parameters()), done.training_loss)
if not os.environ.get("KEEP_PROCESS_GROUP"):
    dist.barrier()
    dist.destroy_process_group()
