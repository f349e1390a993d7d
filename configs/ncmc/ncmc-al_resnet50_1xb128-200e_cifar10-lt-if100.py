# NCMC, Average Loss: the same number of centres for each class.
_base_ = './ncmc-cal_resnet50_1xb128-200e_cifar10-lt-if100.py'

model = dict(head=dict(center_mode='average'))
