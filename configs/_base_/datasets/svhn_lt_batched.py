# SVHN-LT, in batches that are made as a whole.
_base_ = './svhn_lt.py'

from mmgeom.apis.batched_data import batched  # noqa: E402

train_dataloader, data_preprocessor = batched(_base_)
