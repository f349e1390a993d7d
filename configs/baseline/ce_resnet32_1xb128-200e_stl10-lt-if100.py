_base_ = [
    '../_base_/datasets/stl10_lt_batched.py',
    '../_base_/models/cifar_resnet32.py',
    '../_base_/schedules/cifar_200e.py',
    '../_base_/default_runtime.py',
]

# n_max / n_min of the training set
train_dataloader = dict(dataset=dict(dataset=dict(imbalance_factor=100)))
