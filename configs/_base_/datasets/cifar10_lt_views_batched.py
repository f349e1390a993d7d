# CIFAR-10-LT with three views, in batches that are made and
# augmented as a whole.
_base_ = './cifar10_lt_views.py'

from mmgeom.apis.batched_data import batched  # noqa: E402

train_dataloader, data_preprocessor = batched(_base_)
