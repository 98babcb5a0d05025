"""Warnings of a plan: what its reader should know before the plan is carried out."""
