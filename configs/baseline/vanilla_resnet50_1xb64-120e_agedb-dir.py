_base_ = [
    '../_base_/datasets/agedb_dir.py',
    '../_base_/models/resnet50_regressor.py',
    '../_base_/schedules/age_120e.py',
]
