"""The modules of the parity test: tests/programs/parity_models.h has the same modules in C++."""

import torch
from torch import nn


class Dense(nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.hidden = nn.Linear(144, 32)
        self.drop = nn.Dropout(dropout)
        self.out = nn.Linear(32, 10)

    def forward(self, x, turn):
        return self.out(self.drop(torch.relu(self.hidden(torch.relu(self.conv(x)).flatten(1)))))


class Conv(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 8, 3)
        self.out = nn.Linear(32, 10)

    def forward(self, x, turn):
        return self.out(torch.relu(self.conv(x.reshape(-1, 4, 4, 4))).flatten(1))


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(64, 32, bias=False)
        self.norm = nn.BatchNorm1d(32)
        self.out = nn.Linear(32, 10)

    def forward(self, x, turn):
        return self.out(torch.relu(self.norm(self.hidden(x.flatten(1)))))


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Linear(64, 32)
        self.left = nn.Linear(32, 10)
        self.right = nn.Linear(32, 10)
        self.never = nn.Linear(32, 10)

    def forward(self, x, turn):
        y = torch.relu(self.trunk(x.flatten(1)))
        if turn % 3 == 0:
            return self.left(y)
        if turn % 3 == 1:
            return self.right(y)
        return self.left(y) + self.right(y)


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Linear(64, 64)
        self.never = nn.Linear(64, 10)
        self.out = nn.Linear(64, 10)

    def forward(self, x, turn):
        return self.out(torch.relu(self.trunk(torch.relu(self.trunk(x.flatten(1))))))


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(64, 64)
        self.again = self.first
        self.out = nn.Linear(64, 10)
        self.copy = self.first.weight

    def forward(self, x, turn):
        y = torch.relu(self.first(x.flatten(1)))
        return self.out(torch.relu(self.again(y.matmul(self.copy))))


class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(64, 32)
        self.out = nn.Linear(32, 10).double()

    def forward(self, x, turn):
        return self.out(torch.relu(self.first(x.flatten(1))).double())


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, 16, sparse=True)
        self.bag = nn.EmbeddingBag(50, 16, sparse=True, mode="sum")
        self.out = nn.Linear(16, 10)

    def forward(self, x, turn):
        words = (x.flatten(1).narrow(1, 0, 6).abs() * 15).long() % 50
        return self.out(2 * self.embedding(words).mean(1) + 3 * self.bag(words))


MODELS = {
    "dense": Dense, "dropout": lambda: Dense(0.3), "conv": Conv, "norm": Norm, "heads": Heads,
    "twice": Twice, "tied": Tied, "mixed": Mixed, "words": Words,
}
