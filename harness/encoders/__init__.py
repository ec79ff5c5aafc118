"""Encoders: the student, its pooling and heads, frozen teachers and their features, images and
audio as inputs.
"""
