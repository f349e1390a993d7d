# SETF without Mixup.
_base_ = './setf_resnet32_1xb128-200e_cifar100-lt-if100.py'

model = dict(train_cfg=None)
