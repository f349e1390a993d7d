# A number from ten measurements of patients, on data that ship with
# scikit-learn: trains on a CPU in less than a minute.
_base_ = [
    '../_base_/datasets/diabetes_dir.py',
    '../_base_/models/tabular_mlp.py',
    '../_base_/schedules/tabular_200e.py',
]

model = dict(backbone=dict(in_channels=10))
optim_wrapper = dict(optimizer=dict(lr=1e-3))
train_cfg = dict(max_epochs=60)
auto_scale_lr = dict(base_batch_size=16)
default_hooks = dict(checkpoint=dict(interval=10))
