_base_ = '../baseline/vanilla_mlp_1xb10000-20000e_operator-linear-dir.py'

# Weights, temperature and number of points of the published history. Layers
# are tiny at first, and so are gradients of the error; those of the geometric
# losses, which know directions only, are not. With a long warm-up all that
# SRL gains here is lost.
model = dict(
    head=dict(
        type='mmgeom.SRLHead',
        num_bins=100,
        lambda_e=1e-4,
        lambda_h=1e-4,
        lambda_con=1e-4,
        temperature=1.0,
        num_points=1000,
        proj_dim=0,
    )
)
