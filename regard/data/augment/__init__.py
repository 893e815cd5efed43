"""Changes that chance makes to the pictures of a batch while a model is trained, and never when it is measured.

A file for each idea; the folder is the registry. A task names them in `augment`, and they are made in that order. What
chance does follows from the batch's place in the order alone, so a run that goes on sees what it would have seen.
"""
