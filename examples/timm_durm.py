"""A classifier of handwritten digits with timm's own parts: optimizer and scheduler factories, Mixup, EMA, checkpoints.

`diff timm_erm.py timm_durm.py` shows all that Dummy Risk Minimization changes: the head, the loss, and how the weights
of the best checkpoint go into a plain model. Mixup stays as it is: over the C = 10 real classes.
"""

import tempfile

import durm.models  # before timm: lets torchvision's wheel work with a CPU-only torch
import timm
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from timm.data import Mixup
from timm.optim import create_optimizer_v2
from timm.scheduler import create_scheduler_v2
from timm.utils import CheckpointSaver, ModelEmaV3

EPOCHS = 20
torch.manual_seed(0)
images, labels = load_digits(return_X_y=True)
splits = train_test_split(images / 16, labels, test_size=0.5, stratify=labels, random_state=0)
x_train, x_test, y_train, y_test = (torch.from_numpy(array) for array in splits)
x_train, x_test = (
    x.float().view(-1, 1, 8, 8).repeat_interleave(2, 2).repeat_interleave(2, 3) for x in (x_train, x_test)
)
x_train, x_val = x_train[:704], x_train[704:]
y_train, y_val = y_train[:704], y_train[704:]

model = timm.create_model("test_resnet", in_chans=1, num_classes=10)
model = durm.widen(model, dummies=2)
optimizer = create_optimizer_v2(model, opt="adamw", lr=4e-3, weight_decay=0.05)
scheduler, _ = create_scheduler_v2(optimizer, sched="cosine", num_epochs=EPOCHS, warmup_epochs=1, warmup_lr=1e-4)
mixup = Mixup(mixup_alpha=0.2, label_smoothing=0.1, num_classes=10)
criterion = durm.CrossEntropyLoss(num_classes=10)
ema = ModelEmaV3(model, decay=0.95)


def accuracy(network: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> float:
    network.eval()
    with torch.no_grad():
        return (network(x).argmax(1) == y).float().mean().item()


with tempfile.TemporaryDirectory() as folder:
    saver = CheckpointSaver(model, optimizer, model_ema=ema, checkpoint_dir=folder, recovery_dir=folder, max_history=2)
    for epoch in range(EPOCHS):
        model.train()
        for batch in torch.randperm(len(x_train)).split(64):
            x, y = mixup(x_train[batch].clone(), y_train[batch])
            loss = criterion(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            ema.update(model)
        scheduler.step(epoch + 1)
        saver.save_checkpoint(epoch, metric=accuracy(ema.module, x_val, y_val))
    state = torch.load(f"{folder}/model_best.pth.tar", weights_only=True)["state_dict_ema"]

best = timm.create_model("test_resnet", in_chans=1, num_classes=10)
best.load_state_dict(durm.narrow_state_dict(state))
print(f"test accuracy {100 * accuracy(best, x_test, y_test):.2f} % of {len(y_test)} digits")
