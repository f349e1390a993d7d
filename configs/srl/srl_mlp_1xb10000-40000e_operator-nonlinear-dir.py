_base_ = '../baseline/vanilla_mlp_1xb10000-40000e_operator-nonlinear-dir.py'

# Two losses as in the published history, without contrast. Features are tiny
# at first, where directions mean nothing: hence the long warm-up.
model = dict(
    head=dict(
        type='mmgeom.SRLHead',
        num_bins=100,
        lambda_e=1e-4,
        lambda_h=1e-4,
        lambda_con=0.0,
        num_points=1000,
        warmup_epochs=2000,
        proj_dim=0,
    )
)
