# Abalone, in batches that are made as a whole.
_base_ = './uci_abalone_dir.py'

from mmgeom.apis.batched_data import batched  # noqa: E402

train_dataloader, data_preprocessor = batched(_base_)
