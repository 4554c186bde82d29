-- Documents: adding, cutting, embedding.

CREATE FUNCTION @extschema@.rag_add(
    collection text,
    body text,
    title text DEFAULT NULL,
    source_key text DEFAULT NULL,
    metadata jsonb DEFAULT '{}',
    format text DEFAULT 'markdown')
RETURNS bigint LANGUAGE c VOLATILE COST 1000 AS 'MODULE_PATHNAME', 'rag_add_wrapper';

CREATE FUNCTION @extschema@.rag_chunk(
    body text,
    format text DEFAULT 'markdown',
    block_tokens int DEFAULT 1000,
    leaf_tokens int DEFAULT 200,
    overlap int DEFAULT 40)
RETURNS TABLE (
    block int, leaf int, section_path text[], start_char int, end_char int, token_count int, text text)
LANGUAGE c IMMUTABLE PARALLEL SAFE COST 1000 ROWS 20 AS 'MODULE_PATHNAME', 'rag_chunk_wrapper';

CREATE FUNCTION @extschema@.rag_embed(collection text, input text)
RETURNS vector LANGUAGE c STABLE COST 1000 AS 'MODULE_PATHNAME', 'rag_embed_wrapper';

CREATE FUNCTION @extschema@.rag_neighbors(collection text, word text, k int DEFAULT 10)
RETURNS TABLE (word text, score float8)
LANGUAGE c STABLE COST 1000 ROWS 10 AS 'MODULE_PATHNAME', 'rag_neighbors_wrapper';
