_base_ = [
    '../_base_/datasets/svhn_lt_batched.py',
    '../_base_/models/cifar_resnet32.py',
    '../_base_/schedules/cifar_200e.py',
    '../_base_/default_runtime.py',
]
