_base_ = '../baseline/vanilla_mlp_1xb64-200e_uci-real-estate-dir.py'

# On the feature of width 10 itself.
model = dict(
    head=dict(type='mmgeom.SRLHead', num_bins=56, lambda_con=0.1, proj_dim=0)
)
