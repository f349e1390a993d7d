# The same run with plain cross-entropy, to compare with.
_base_ = './logit-adjustment_resnet20_1xb64-60e_digits-lt-if20.py'

model = dict(
    head=dict(
        loss=dict(_delete_=True, type='CrossEntropyLoss', loss_weight=1.0)
    )
)
