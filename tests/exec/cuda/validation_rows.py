"""Pairs of model and plan that validate_report.py simulates and trains, by number of GPUs.

ROWS[gpus] lists (model, name of the plan, plan): fields of sim/plan/plan.proto. RANKED[gpus] says
how many of the first rows are of one model and batch: their order is compared.
"""

GPT = 'family: GPT hidden_size: {h} ffn_hidden_size: {f} layers: {l} attention_heads: {a} ' \
      'vocab_size: 50257 max_sequence_length: 1024'
LLAMA = 'family: LLAMA hidden_size: {h} ffn_hidden_size: {f} layers: {l} attention_heads: {a} ' \
        'vocab_size: 32000 max_sequence_length: 1024'
MODELS = {
    'gpt2-0.35b': GPT.format(h=1024, f=4096, l=24, a=16),
    'llama-1.3b': LLAMA.format(h=2048, f=5504, l=24, a=16),
    'gpt2-2.7b': GPT.format(h=2560, f=10240, l=32, a=32),
    'llama-6.7b': LLAMA.format(h=4096, f=11008, l=32, a=32),
    'llama-13b-20l': LLAMA.format(h=5120, f=13824, l=20, a=40),
    'llama-13b': LLAMA.format(h=5120, f=13824, l=40, a=40),
}

ONE = [
    ('llama-1.3b', 'plain', 'micro_batch: 32 global_batch: 32'),
    ('llama-1.3b', 'balanced', 'micro_batch: 32 global_batch: 32 recompute: RECOMPUTE_BALANCED'),
    ('llama-1.3b', 'checkpoint', 'micro_batch: 32 global_batch: 32 recompute: RECOMPUTE_FULL'),
    ('llama-1.3b', '4 micro-batches', 'micro_batch: 8 global_batch: 32'),
    ('llama-1.3b', 'chunks, all on GPU',
     'micro_batch: 32 global_batch: 32 persistent_chunks: 26 checkpointed_blocks: 12'),
    ('llama-1.3b', 'chunks, CPU Adam, checkpoint',
     'micro_batch: 32 global_batch: 32 persistent_chunks: 4 chunk_buffers: 3 checkpointed_blocks: 20'),
    ('llama-1.3b', 'chunks, CPU Adam, swap',
     'micro_batch: 32 global_batch: 32 persistent_chunks: 14 chunk_buffers: 3 swapped_blocks: 6 '
     'checkpointed_blocks: 12'),
    ('llama-1.3b', 'swap', 'micro_batch: 32 global_batch: 32 swapped_blocks: 4'),
    ('llama-1.3b', 'small batch', 'micro_batch: 4 global_batch: 4'),
    ('gpt2-0.35b', 'plain', 'micro_batch: 32 global_batch: 64'),
    ('gpt2-0.35b', 'small batch', 'micro_batch: 4 global_batch: 16'),
    ('gpt2-0.35b', 'chunks, CPU Adam',
     'micro_batch: 32 global_batch: 32 persistent_chunks: 6 chunk_buffers: 4'),
    ('llama-6.7b', 'plain', 'micro_batch: 4 global_batch: 8'),
    ('llama-6.7b', 'chunks, CPU Adam, checkpoint',
     'micro_batch: 16 global_batch: 16 persistent_chunks: 28 chunk_buffers: 3 checkpointed_blocks: 32'),
    ('llama-13b-20l', 'checkpoint', 'micro_batch: 4 global_batch: 4 recompute: RECOMPUTE_FULL'),
    ('llama-13b-20l', 'chunks, CPU Adam, balanced',
     'micro_batch: 8 global_batch: 8 recompute: RECOMPUTE_BALANCED persistent_chunks: 18 '
     'chunk_buffers: 3'),
    ('llama-13b', 'chunks, CPU Adam, checkpoint',
     'micro_batch: 8 global_batch: 8 persistent_chunks: 24 chunk_buffers: 3 checkpointed_blocks: 40'),
    ('gpt2-2.7b', 'plain', 'micro_batch: 4 global_batch: 16'),
    ('gpt2-2.7b', 'chunks, CPU Adam',
     'micro_batch: 8 global_batch: 8 persistent_chunks: 10 chunk_buffers: 3 checkpointed_blocks: 16'),
]

TWO = [
    ('llama-1.3b', 't=2', 'tensor_parallel: 2 micro_batch: 16 global_batch: 64'),
    ('llama-1.3b', 'c=2', 'context_parallel: 2 micro_batch: 16 global_batch: 64'),
    ('llama-1.3b', 'p=2, v=2, offload 0',
     'pipeline_parallel: 2 virtual_stages: 2 micro_batch: 8 global_batch: 64'),
    ('llama-1.3b', 'p=2, v=2, offload 0.5',
     'pipeline_parallel: 2 virtual_stages: 2 micro_batch: 8 global_batch: 64 offload_ratio: 0.5'),
    ('llama-1.3b', 'p=2, v=2, offload 1',
     'pipeline_parallel: 2 virtual_stages: 2 micro_batch: 8 global_batch: 64 offload_ratio: 1'),
    ('llama-1.3b', 'd=2, ZeRO 0', 'data_parallel: 2 zero_stage: 0 micro_batch: 16 global_batch: 64'),
    ('llama-1.3b', 'd=2, ZeRO 1', 'data_parallel: 2 zero_stage: 1 micro_batch: 16 global_batch: 64'),
    ('llama-1.3b', 'd=2, ZeRO 2', 'data_parallel: 2 zero_stage: 2 micro_batch: 16 global_batch: 64'),
    ('llama-1.3b', 'd=2, ZeRO 3', 'data_parallel: 2 zero_stage: 3 micro_batch: 16 global_batch: 64'),
    ('llama-1.3b', 'd=2, chunks',
     'data_parallel: 2 micro_batch: 32 global_batch: 64 persistent_chunks: 14 chunk_buffers: 3 '
     'checkpointed_blocks: 12'),
    ('llama-6.7b', 't=2', 'tensor_parallel: 2 micro_batch: 4 global_batch: 16'),
    ('llama-6.7b', 'd=2, ZeRO 1', 'data_parallel: 2 micro_batch: 4 global_batch: 16'),
    ('llama-6.7b', 'p=2, v=2, offload 0.5',
     'pipeline_parallel: 2 virtual_stages: 2 micro_batch: 4 global_batch: 32 offload_ratio: 0.5'),
    ('llama-13b', 't=2, checkpoint',
     'tensor_parallel: 2 micro_batch: 4 global_batch: 8 recompute: RECOMPUTE_FULL'),
    ('llama-13b', 'p=2, v=2, checkpoint',
     'pipeline_parallel: 2 virtual_stages: 2 micro_batch: 2 global_batch: 16 '
     'recompute: RECOMPUTE_FULL'),
]

ROWS = {1: ONE, 2: TWO}
RANKED = {1: 8, 2: 10}
# For a first look.
QUICK = {('gpt2-0.35b', 'small batch'), ('llama-1.3b', 'plain'), ('llama-1.3b', 'swap'),
         ('llama-1.3b', 't=2'), ('llama-1.3b', 'd=2, ZeRO 1')}
