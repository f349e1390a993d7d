_base_ = '../baseline/vanilla_mlp_1xb10000-20000e_operator-linear-dir.py'

# Weights, temperature and number of points of the published history. Features
# are tiny at first, where directions mean nothing: hence the long warm-up.
model = dict(
    head=dict(
        type='mmgeom.SRLHead',
        num_bins=100,
        lambda_e=1e-4,
        lambda_h=1e-4,
        lambda_con=1e-4,
        temperature=1.0,
        num_points=1000,
        warmup_epochs=2000,
        proj_dim=0,
    )
)
