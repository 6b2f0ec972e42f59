"""A classifier of handwritten digits in plain PyTorch.

`diff train_erm.py train_durm.py` shows all that Dummy Risk Minimization changes: two lines.
"""

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

torch.manual_seed(0)
images, labels = load_digits(return_X_y=True)
splits = train_test_split(images / 16, labels, test_size=0.5, stratify=labels, random_state=0)
x_train, x_test, y_train, y_test = (torch.from_numpy(array) for array in splits)
x_train, x_test = x_train.float(), x_test.float()

model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
criterion = nn.CrossEntropyLoss()

for _ in range(20):
    model.train()
    for batch in torch.randperm(len(x_train)).split(64):
        loss = criterion(model(x_train[batch]), y_train[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

model.eval()
with torch.no_grad():
    accuracy = (model(x_test).argmax(1) == y_test).float().mean()
print(f"test accuracy {100 * accuracy:.2f} % of {len(y_test)} digits")
