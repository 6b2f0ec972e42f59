"""A Hugging Face Trainer script that writes metrics.json into its folder, for `durm compare --command`:

durm compare --command "python hugging_face.py --seed {seed} --dropout {dropout} --folder {folder}" \
    --arm "base: dropout=0.1" --arm "none: dropout=0" --seeds 10 --metric accuracy

The model is a tiny BERT with random weights, the data are made up: does the sequence have more 1s than 2s?
"""

import argparse
import json
from pathlib import Path

import durm.models  # noqa: F401 (first, where a CPU build of torch stands next to the usual torchvision)
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, required=True)
parser.add_argument("--dropout", type=float, default=0.1)
parser.add_argument("--folder", type=Path, required=True)
parser.add_argument("--epochs", type=float, default=3)
options = parser.parse_args()


class Counting(torch.utils.data.Dataset):
    """Sequences of 1s and 2s, and which of the two is more frequent."""

    def __init__(self, samples: int, seed: int) -> None:
        self.tokens = torch.randint(1, 3, (samples, 9), generator=torch.Generator().manual_seed(seed))

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        tokens = self.tokens[index]
        return {"input_ids": tokens, "labels": ((tokens == 1).sum() > 4).long()}


set_seed(options.seed)
small = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
dropout = {"hidden_dropout_prob": options.dropout, "attention_probs_dropout_prob": options.dropout}
trainer = Trainer(
    model=BertForSequenceClassification(BertConfig(vocab_size=3, **small, **dropout, num_labels=2)),
    args=TrainingArguments(
        output_dir=str(options.folder),
        seed=options.seed,
        num_train_epochs=options.epochs,
        learning_rate=2e-3,
        per_device_train_batch_size=32,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
    ),
    train_dataset=Counting(512, seed=1),
    eval_dataset=Counting(256, seed=2),
    compute_metrics=lambda found: {"accuracy": 100 * float((found.predictions.argmax(1) == found.label_ids).mean())},
)
trainer.train()
metrics = trainer.evaluate()
(options.folder / "metrics.json").write_text(json.dumps({"accuracy": metrics["eval_accuracy"]}))
