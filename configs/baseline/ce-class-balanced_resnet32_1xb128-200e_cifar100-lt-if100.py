# Cross-entropy with class-balanced sampling; the other strategies are
# square_root, effective_number and progressive.
_base_ = './ce_resnet32_1xb128-200e_cifar100-lt-if100.py'

train_dataloader = dict(
    sampler=dict(type='mmgeom.RebalancedSampler', strategy='class_balanced')
)
