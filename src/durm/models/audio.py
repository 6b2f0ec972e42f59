"""A model for sequences of features, such as the log-mel features of sound."""

from torch import Tensor, nn

HIDDEN = 128
LAYERS = 2
DROPOUT = 0.2


class LstmClassifier(nn.Module):
    """Sequences (N, frames, features) → logits (N, C).

    Two LSTM layers, the mean of the upper one's states over all frames, dropout and a linear head. The mean, not the
    last state: most clips end in silence or padding, which a last state would have to remember the sound through.
    """

    def __init__(self, num_classes: int, features: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(features, HIDDEN, LAYERS, batch_first=True, dropout=DROPOUT)
        self.dropout = nn.Dropout(DROPOUT)
        self.head = nn.Linear(HIDDEN, num_classes)

    def forward(self, sequences: Tensor) -> Tensor:
        states, _ = self.lstm(sequences)
        logits: Tensor = self.head(self.dropout(states.mean(1)))
        return logits


def lstm(num_classes: int, shape: tuple[int, ...]) -> nn.Module:
    """An LSTM classifier of sequences of shape (frames, features)."""
    return LstmClassifier(num_classes, shape[1])
