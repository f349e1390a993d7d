# Cross-entropy in training, logit adjustment at test time. Also tests a
# checkpoint of the plain cross-entropy config.
_base_ = './ce_resnet32_1xb128-200e_cifar100-lt-if100.py'

model = dict(head=dict(post_hoc_tau=1.0))
