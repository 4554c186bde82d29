-- RAPTOR: the tree of summaries.

CREATE FUNCTION @extschema@.raptor_build(
    collection text,
    method text DEFAULT 'bisect',
    max_levels int DEFAULT NULL,
    cluster_size int DEFAULT NULL,
    seed bigint DEFAULT 0)
RETURNS TABLE (level int, nodes bigint, calls bigint)
LANGUAGE c VOLATILE COST 100000 ROWS 8 AS 'MODULE_PATHNAME', 'raptor_build_wrapper';

CREATE FUNCTION @extschema@.raptor_search(
    collection text,
    query text,
    k int DEFAULT 10,
    filter jsonb DEFAULT '{}',
    mode text DEFAULT 'collapsed',
    max_tokens int DEFAULT NULL,
    documents bigint[] DEFAULT NULL,
    width int DEFAULT 5,
    depth int DEFAULT NULL,
    min_level int DEFAULT NULL,
    max_level int DEFAULT NULL,
    overlap text DEFAULT 'skip')
RETURNS TABLE (
    node_id bigint, level int, score float8, text text, token_count int, metadata jsonb, document_ids bigint[],
    documents bigint)
LANGUAGE c STABLE COST 1000 ROWS 10 AS 'MODULE_PATHNAME', 'raptor_search_wrapper';

CREATE FUNCTION @extschema@.raptor_search(
    collection text,
    query vector,
    k int DEFAULT 10,
    filter jsonb DEFAULT '{}',
    mode text DEFAULT 'collapsed',
    max_tokens int DEFAULT NULL,
    documents bigint[] DEFAULT NULL,
    width int DEFAULT 5,
    depth int DEFAULT NULL,
    min_level int DEFAULT NULL,
    max_level int DEFAULT NULL,
    overlap text DEFAULT 'skip')
RETURNS TABLE (
    node_id bigint, level int, score float8, text text, token_count int, metadata jsonb, document_ids bigint[],
    documents bigint)
LANGUAGE c STABLE COST 1000 ROWS 10 AS 'MODULE_PATHNAME', 'raptor_search_vector_wrapper';

CREATE FUNCTION @extschema@.raptor_tree(
    collection text,
    node_id bigint DEFAULT NULL,
    direction text DEFAULT 'down',
    depth int DEFAULT NULL)
RETURNS TABLE (
    node_id bigint, parent_id bigint, level int, depth int, path bigint[], weight float8, token_count int, text text)
LANGUAGE c STABLE COST 1000 ROWS 1000 AS 'MODULE_PATHNAME', 'raptor_tree_wrapper';
