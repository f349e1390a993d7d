# NCMC, Class-Aware Loss, with Mixup.
_base_ = './ncmc-cal_resnet50_1xb128-200e_svhn-lt-if100.py'

model = dict(train_cfg=dict(augments=dict(type='Mixup', alpha=1.0)))
