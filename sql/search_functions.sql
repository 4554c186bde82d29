-- Several ways to find passages, fused.

CREATE FUNCTION @extschema@.rag_search(
    collection text,
    query text,
    k int DEFAULT 10,
    filter jsonb DEFAULT '{}',
    methods text[] DEFAULT NULL,
    expand text DEFAULT 'leaf',
    documents bigint[] DEFAULT NULL,
    weights float8[] DEFAULT NULL,
    fusion text DEFAULT 'rrf',
    max_tokens int DEFAULT NULL,
    candidates int DEFAULT NULL)
RETURNS TABLE (
    node_id bigint, level int, score float8, dense_rank int, lexical_rank int, tree_rank int, graph_rank int, text text,
    token_count int, section_path text[], metadata jsonb, document_ids bigint[], documents bigint, block_id bigint,
    start_char int, end_char int, matched text)
LANGUAGE c STABLE COST 1000 ROWS 10 AS 'MODULE_PATHNAME', 'rag_search_wrapper';

CREATE FUNCTION @extschema@.rag_context(
    collection text,
    query text,
    max_tokens int DEFAULT 4000,
    filter jsonb DEFAULT '{}',
    methods text[] DEFAULT NULL,
    expand text DEFAULT 'leaf',
    graph_share float8 DEFAULT 0.2,
    documents bigint[] DEFAULT NULL)
RETURNS TABLE (
    citation text, kind text, id bigint, text text, token_count int, title text, source_key text, section_path text[], start_char int,
    end_char int, document_ids bigint[])
LANGUAGE c STABLE COST 1000 ROWS 20 AS 'MODULE_PATHNAME', 'rag_context_wrapper';
