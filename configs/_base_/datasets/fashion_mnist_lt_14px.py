# Fashion-MNIST at half its size (14x14, grey) with at most 1000 images a
# class, made long-tailed: small enough for many runs on a CPU.
_base_ = './fashion_mnist_lt.py'

half = dict(type='Resize', scale=14)

train_pipeline = [
    half,
    dict(type='RandomCrop', crop_size=14, padding=1),
    dict(type='RandomFlip', prob=0.5, direction='horizontal'),
    dict(type='PackInputs'),
]
test_pipeline = [half, dict(type='PackInputs')]

train_dataloader = dict(
    num_workers=0,
    persistent_workers=False,
    dataset=dict(max_count=1000, dataset=dict(pipeline=train_pipeline)),
)
val_dataloader = dict(
    num_workers=0,
    persistent_workers=False,
    dataset=dict(pipeline=test_pipeline),
)
test_dataloader = val_dataloader
