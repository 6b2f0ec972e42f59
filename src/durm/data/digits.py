"""scikit-learn's digits: 1,797 images of 8 × 8 pixels, 10 classes, part of that library: nothing is downloaded."""

from functools import cache

import torch

from durm._random import generator
from durm.data import LOADERS, DataOptions
from durm.data.bundle import DataBundle, Samples, measure, split_by_seed, stratified_split

TEST_SAMPLES = 1000
"""So many that one of them weighs 0.1 points of accuracy, which is also the default region of practical equivalence."""


WHITE = 16
"""The pixels are whole numbers from 0 to 16."""


class Digits:
    """Handwritten digits of 8 × 8 pixels, 10 classes; comes with scikit-learn."""

    takes_path = False
    takes_image_size = False

    def __call__(self, path: str, seed: int, options: DataOptions) -> DataBundle:
        learn, test = _learn_and_test()
        train, val = split_by_seed(learn, 0.25, seed, "val")
        assert isinstance(train.inputs, torch.Tensor)
        names = [str(digit) for digit in range(10)]
        notes = [f"{TEST_SAMPLES} images are the test set, the same for every seed; validation is split off by seed"]
        return DataBundle(train, val, test, 10, names, measure(train.inputs, WHITE), notes=notes)


@cache
def _learn_and_test() -> tuple[Samples, Samples]:
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    every = Samples(torch.from_numpy(images).reshape(-1, 1, 8, 8).to(torch.uint8), torch.from_numpy(labels).long())
    share = TEST_SAMPLES / len(every)
    rest, test = stratified_split(every.labels, share, generator(0, "digits", "test"))
    return every.subset(rest), every.subset(test)


LOADERS.register("digits")(Digits())
