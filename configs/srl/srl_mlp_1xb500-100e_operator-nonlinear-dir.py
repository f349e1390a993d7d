_base_ = '../baseline/vanilla_mlp_1xb500-100e_operator-nonlinear-dir.py'

# Chosen by us on validation rows. Features are tiny at first, where directions
# mean nothing and would hold up the regression: hence the long warm-up.
model = dict(
    head=dict(
        type='mmgeom.SRLHead',
        num_bins=100,
        lambda_e=1e-4,
        lambda_h=1e-5,
        lambda_con=1e-4,
        temperature=0.1,
        num_points=1000,
        warmup_epochs=15,
        proj_dim=0,
    )
)
