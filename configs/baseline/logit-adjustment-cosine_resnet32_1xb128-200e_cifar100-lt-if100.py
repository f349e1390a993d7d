# Logit adjustment with a cosine classifier.
_base_ = './logit-adjustment_resnet32_1xb128-200e_cifar100-lt-if100.py'

model = dict(head=dict(type='mmgeom.CosineHead', scale=30.0))
