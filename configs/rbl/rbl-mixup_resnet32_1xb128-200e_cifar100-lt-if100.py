# RBL with Mixup, as SETF is trained.
_base_ = './rbl_resnet32_1xb128-200e_cifar100-lt-if100.py'

model = dict(train_cfg=dict(augments=dict(type='Mixup', alpha=1.0)))
