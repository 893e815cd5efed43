"""The grammar: specs, states, masks, views, probes; mixers in blocks, blocks in stacks, stacks in models."""
