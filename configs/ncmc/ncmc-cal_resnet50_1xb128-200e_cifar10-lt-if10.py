# Milder imbalance: the paper finds fewer centres and a larger angle better.
_base_ = './ncmc-cal_resnet50_1xb128-200e_cifar10-lt-if100.py'

# n_max / n_min of the training set
train_dataloader = dict(dataset=dict(dataset=dict(imbalance_factor=10)))

model = dict(head=dict(f=10, theta=0.5))
