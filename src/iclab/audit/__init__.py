"""Audit: claims with their derivations as one document, a program that derives them again, cells computed again."""
