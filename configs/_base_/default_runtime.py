# Types without a prefix are those of mmpretrain and mmengine, ours are
# written mmgeom.X.
default_scope = 'mmpretrain'

default_hooks = dict(
    timer=dict(type='IterTimerHook'),
    logger=dict(type='LoggerHook', interval=50),
    param_scheduler=dict(type='ParamSchedulerHook'),
    checkpoint=dict(
        type='CheckpointHook',
        interval=1,
        max_keep_ckpts=2,
        save_best='shot/accuracy_class_mean',
        rule='greater',
    ),
    sampler_seed=dict(type='DistSamplerSeedHook'),
    visualization=dict(type='VisualizationHook', enable=False),
    # Reads the class counts from the training data and hands them to
    # losses, heads and metrics.
    label_distribution=dict(type='mmgeom.LabelDistributionHook'),
    # Reads mean and standard deviation of regression targets and of the input
    # columns; does nothing for models of classes.
    standardization=dict(type='mmgeom.StandardizationHook'),
    # Refuses a checkpoint that does not belong to the model.
    checkpoint_check=dict(type='mmgeom.CheckpointCheckHook'),
    # Starts and ends the epochs of modules that have schedules or statistics.
    epoch=dict(type='mmgeom.EpochHook'),
    # Several processes: one set of batch-norm statistics for all.
    sync_statistics=dict(type='mmgeom.SyncRunningStatisticsHook'),
)

env_cfg = dict(
    cudnn_benchmark=False,
    mp_cfg=dict(mp_start_method='fork', opencv_num_threads=0),
    dist_cfg=dict(backend='nccl'),
)

vis_backends = [dict(type='LocalVisBackend')]
visualizer = dict(type='UniversalVisualizer', vis_backends=vis_backends)

log_level = 'INFO'
load_from = None
resume = False

# A fixed seed, so that two runs of a config can be compared.
randomness = dict(seed=0, deterministic=False)
