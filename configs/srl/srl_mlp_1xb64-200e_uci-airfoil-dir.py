_base_ = '../baseline/vanilla_mlp_1xb64-200e_uci-airfoil-dir.py'

# On the feature of width 10 itself.
model = dict(
    head=dict(
        type='mmgeom.SRLHead',
        num_bins=38,
        lambda_h=0.01,
        lambda_con=0.1,
        proj_dim=0,
    )
)
