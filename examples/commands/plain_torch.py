"""A plain PyTorch script whose last line is its result, for `durm compare --command`:

durm compare --command "python plain_torch.py --seed {seed} --smoothing {smoothing}" \
    --arm "base: smoothing=0" --arm "smooth: smoothing=0.1" --seeds 10 --metric accuracy
"""

import argparse
import json

import torch
from sklearn.datasets import load_digits
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, required=True)
parser.add_argument("--smoothing", type=float, default=0.0)
parser.add_argument("--epochs", type=int, default=30)
options = parser.parse_args()

torch.manual_seed(options.seed)  # the same for every arm: what is paired are runs of one seed
images, labels = map(torch.as_tensor, load_digits(return_X_y=True))
images = images.float() / 16
test = torch.arange(len(images)) % 2 == 0  # the same for every seed
x_train, y_train, x_test, y_test = images[~test], labels[~test], images[test], labels[test]

model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
loss_of = nn.CrossEntropyLoss(label_smoothing=options.smoothing)
for _ in range(options.epochs):
    for batch in torch.randperm(len(x_train)).split(64):
        loss = loss_of(model(x_train[batch]), y_train[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

model.eval()
with torch.no_grad():
    logits = model(x_test)
accuracy = 100 * (logits.argmax(1) == y_test).double().mean().item()
nll = nn.functional.cross_entropy(logits, y_test).item()
print(json.dumps({"accuracy": accuracy, "nll": nll}))
