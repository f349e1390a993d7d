# Fashion-MNIST-LT, in batches that are made and augmented as a whole.
_base_ = './fashion_mnist_lt.py'

from mmgeom.apis.batched_data import batched  # noqa: E402

train_dataloader, data_preprocessor = batched(_base_)
