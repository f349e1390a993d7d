# NCMC, Average Loss, with Mixup.
_base_ = './ncmc-al_resnet50_1xb128-200e_cifar100-lt-if100.py'

model = dict(train_cfg=dict(augments=dict(type='Mixup', alpha=1.0)))
